"""Links from partners: the last message accepted, and the number that is expected next."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.flows import operate, resynchronise
from msh.flows.advance import Actor
from msh.models import Direction, InboundLink, InboundMessage, InboundState
from msh.protocol import sequence

from . import cells
from .base import ReadOnlyAdmin
from .history import history_of_link
from .tables import Table
from .verbs import ReasonOnlyForm

FIRST_ROWS = 10


class NumberForm(ReasonOnlyForm):
    number = forms.IntegerField(
        min_value=sequence.FIRST,
        max_value=sequence.LAST,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


@admin.register(InboundLink)
class InboundLinkAdmin(ReadOnlyAdmin):
    list_display = ("partner", "last_number", "last_message", "expected", "undelivered")
    list_select_related = ("partner",)
    search_fields = ("partner__name", "partner__uri")
    search_help_text = "Partner or its URI"
    ordering = ("partner__name",)
    sortable_by = ()
    fields = (("partner", "epoch"), ("last_number", "expected"), ("last_message", "undelivered"))

    actions_detail = ("allow_reset", "expect")

    @action(
        description="Allow reset",
        permissions=["allow_reset"],
        url_path="allow-reset",
        icon="restart_alt",
        dialog={
            "title": "Allow reset",
            "description": "The partner's next number 1 is accepted as a reset of its numbers,"
            " whatever the agreement says of it. Once.",
            "form_class": ReasonOnlyForm,
            "form_submit_text": "Allow reset",
        },
    )
    def allow_reset(
        self, request: HttpRequest, form: ReasonOnlyForm, object_id: str
    ) -> HttpResponseRedirect:
        done = "Its next number 1 is accepted."
        return _act(request, form, object_id, resynchronise.allow_reset, done)

    @action(
        description="Expect number",
        permissions=["expect"],
        url_path="expect",
        icon="skip_next",
        dialog={
            "title": "Expect number",
            "description": "The number that is taken next from this partner. Those before it are"
            " given up as lost: first see whether the partner can send them again.",
            "form_class": NumberForm,
            "form_submit_text": "Give up what is missing",
        },
    )
    def expect(
        self, request: HttpRequest, form: ReasonOnlyForm, object_id: str
    ) -> HttpResponseRedirect:
        number = form.cleaned_data["number"]
        done = f"Number {number} is taken next."
        return _act(request, form, object_id, resynchronise.expect, done, number)

    def has_allow_reset_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        return request.user.has_perms(("msh.view_inboundlink", "msh.allow_reset_inboundlink"))

    def has_expect_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_inboundlink", "msh.expect_inboundlink"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundLink]:
        links: QuerySet[InboundLink] = super().get_queryset(request)
        waiting = InboundMessage.objects.filter(link=OuterRef("pk"), state=InboundState.ACCEPTED)
        counted = waiting.order_by().values("link").annotate(count=Count("pk")).values("count")
        return links.annotate(waiting=Coalesce(Subquery(counted), 0))

    @display(description="Last MessageId")
    def last_message(self, link: InboundLink) -> str:
        return cells.find_message(link.last_message_id, Direction.IN)

    @display(description="Expected next")
    def expected(self, link: InboundLink) -> int:
        if link.last_number is None:
            return sequence.FIRST
        return sequence.following(link.last_number)

    @display(description="Not delivered yet")
    def undelivered(self, link: Any) -> int:
        return int(link.waiting)

    def tables(self, request: HttpRequest, row: InboundLink) -> list[Table]:
        return [_last_messages(row), history_of_link(row.partner_id, Direction.IN)]


def _act(
    request: HttpRequest,
    form: ReasonOnlyForm,
    object_id: str,
    flow: Callable[..., None],
    done: str,
    *arguments: Any,
) -> HttpResponseRedirect:
    link = get_object_or_404(InboundLink.objects.select_related("partner"), pk=object_id)
    actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
    try:
        flow(link.partner, *arguments, actor)
    except operate.NotPossible as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, done)
    return HttpResponseRedirect(cells.page_url(link))


def _last_messages(link: InboundLink) -> Table:
    messages = InboundMessage.objects.filter(link=link).defer("header")
    rows = [
        (
            cells.link_to(message),
            message.sequence_number or cells.DASH,
            cells.state_badge(message),
            f"{message.service_interface} / {message.action}",
            cells.time_of(message.received_at),
        )
        for message in messages[:FIRST_ROWS]
    ]
    return Table(
        "Messages, the last first",
        ("MessageId", "Number", "State", "ServiceInterface / Action", "Received"),
        rows,
        "None was accepted yet.",
        cells.list_url(InboundMessage, link__partner__id__exact=link.partner_id),
    )
