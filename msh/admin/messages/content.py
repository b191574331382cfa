"""The content of a message: shown as text, or downloaded. It is never rendered.

What a partner sends is escaped and truncated, and downloads are bytes that a browser must save.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe
from unfold.admin import ModelAdmin

from msh import wire
from msh.admin.framework import markup
from msh.flows.operations.inspection.raw_message import (
    BytesMissing,
    Stored,
    body_of,
    header_of,
    payload_of,
)
from msh.models import InboundMessage, OutboundMessage

Message = OutboundMessage | InboundMessage

TEXT_LIMIT = 256 * 1024
"""Bytes of a payload shown as text."""
NAME_LIMIT = 100

_NOT_IN_A_NAME = re.compile(r"[^\w.()+ -]")


class ContentPages(ModelAdmin):
    """Pages and downloads below the page of a message."""

    payload_permissions: ClassVar[tuple[str, ...]]
    """All of them are needed to view a payload."""

    def get_urls(self) -> list[URLPattern]:
        pages: list[tuple[str, str, Callable[..., HttpResponse]]] = [
            ("header/", "header", self._header_page),
            ("header/bytes/", "header_bytes", self._header_bytes),
            ("payload/<int:position>/", "payload", self._payload_page),
            ("payload/<int:position>/bytes/", "payload_bytes", self._payload_bytes),
        ]
        if self.model is OutboundMessage:  # the body of a message from a partner is not kept whole
            pages.append(("body/bytes/", "body_bytes", self._body_bytes))
        return [*(self._page(*page) for page in pages), *super().get_urls()]

    def _page(self, route: str, name: str, view: Callable[..., HttpResponse]) -> URLPattern:
        def shown(request: HttpRequest, object_id: int, **which: int) -> HttpResponse:
            message = self._get_message(request, object_id)
            try:
                return view(request, message, **which)
            except BytesMissing as missing:
                messages.error(request, str(missing))
                return HttpResponseRedirect(markup.page_url(message))

        safe = self.admin_site.admin_view(require_safe(shown))
        pattern: URLPattern = path(f"<int:object_id>/{route}", safe, name=self._name(name))
        return pattern

    def _name(self, page: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def content_url(self, page: str, *arguments: int) -> str:
        return reverse(f"admin:{self._name(page)}", args=arguments)

    def can_view_payloads(self, request: HttpRequest) -> bool:
        return request.user.has_perms(self.payload_permissions)

    def _header_page(self, request: HttpRequest, message: Message) -> HttpResponse:
        address = self.content_url("header_bytes", message.pk)
        return self._content_page(request, message, "Header document", header_of(message), address)

    def _header_bytes(self, request: HttpRequest, message: Message) -> HttpResponse:
        return download(header_of(message), "header.xml")

    def _payload_page(self, request: HttpRequest, message: Message, position: int) -> HttpResponse:
        self._check_payloads(request)
        address = self.content_url("payload_bytes", message.pk, position)
        stored = payload_of(message, position)
        return self._content_page(request, message, f"Payload {position}", stored, address)

    def _payload_bytes(self, request: HttpRequest, message: Message, position: int) -> HttpResponse:
        self._check_payloads(request)
        return download(payload_of(message, position), f"payload-{position}")

    def _body_bytes(self, request: HttpRequest, message: OutboundMessage) -> HttpResponse:
        self._check_payloads(request)
        return download(body_of(message), f"message-{message.pk}.mime")

    def _check_payloads(self, request: HttpRequest) -> None:
        if not self.can_view_payloads(request):
            raise PermissionDenied

    def _get_message(self, request: HttpRequest, object_id: int) -> Message:
        if not self.has_view_permission(request):
            raise PermissionDenied
        message: Message | None = (
            self.model.objects.select_related("link__partner").filter(pk=object_id).first()
        )
        if message is None:
            raise Http404(f"There is no {self.opts.verbose_name} {object_id}.")
        return message

    def _content_page(
        self, request: HttpRequest, message: Message, title: str, stored: Stored, address: str
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"{title} of {markup.escape_invisible(str(message))}",
            "opts": self.opts,
            "back": markup.page_url(message),
            "download": address,
            "stored": stored,
            "name": markup.isolated(stored.name),
            "content_type": markup.isolated(stored.content_type),
            "size": filesizeformat(len(stored.content)),
            **_text_and_note(stored),
        }
        return TemplateResponse(request, "admin/msh/messages/content.html", context)


def _text_and_note(stored: Stored) -> dict[str, str | None]:
    """The text to show, None if there is none, and a note about it."""
    text = wire.as_text(stored.content_type, stored.content, TEXT_LIMIT)
    if text is None:
        return {"text": None, "note": "Binary content. Download it to view it."}
    if len(stored.content) > TEXT_LIMIT:
        note = f"Only the first {filesizeformat(TEXT_LIMIT)} are shown, without formatting."
        return {"text": markup.escape_invisible(text), "note": note}
    xml = wire.indented(stored.content)
    if xml is None:
        return {"text": markup.escape_invisible(text), "note": ""}
    return {
        "text": markup.escape_invisible(xml),
        "note": "Indented for display. The download is unchanged.",
    }


def download(stored: Stored, fallback: str) -> HttpResponse:
    """The exact bytes, as an attachment: no browser may interpret them as a page or a script."""
    name = file_name(stored.name) or fallback
    response = HttpResponse(stored.content, content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cache-Control"] = "private, no-store"
    return response


def file_name(label: str) -> str:
    """A safe file name: the last part of `label`, without invisible or special characters."""
    last = re.split(r"[/\\]", label)[-1]
    return _NOT_IN_A_NAME.sub("_", last).strip(" ._")[-NAME_LIMIT:]
