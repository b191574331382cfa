"""What an operator may do to a row: each verb is a page of its own, shown as a dialog.

GET shows what the verb does to this row and asks for the reason; only a POST with the CSRF token
acts. Both need the verb's permissions. Who and why go into the history.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextareaWidget

from msh.flows.advance import Actor
from msh.flows.operate import NotPossible

from . import markup

REASON_LIMIT = 500


class ReasonForm(forms.Form):
    """Why, which is required. A verb that needs to know more adds its fields."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "autofocus": True}),
        help_text="Kept in the history with your name.",
    )
    about = forms.CharField(required=False, widget=forms.HiddenInput)

    field_order = ("reason",)

    @property
    def given(self) -> dict[str, Any]:
        """What the verb is told besides who and why."""
        return {k: v for k, v in self.cleaned_data.items() if k not in ("reason", "about")}


class Verb:
    """One thing that may be done to a row of one model.

    `name` is part of the address, `permissions` are needed all of them. `first` marks what helps
    most often, `grave` what cannot be taken back.
    """

    name: str
    title: str
    icon: str
    permissions: tuple[str, ...]
    first: bool = False
    grave: bool = False
    form: type[ReasonForm] = ReasonForm
    template: str = "admin/msh/framework/dialog.html"

    def why_not(self, row: Any) -> str:
        """Why it makes no sense now, as a sentence; empty where it does."""
        return ""

    def consequence(self, row: Any) -> str:
        """What it does to this row, and what the partner has to do."""
        raise NotImplementedError

    def about(self, row: Any) -> str:
        """What the dialog speaks of, such as a MessageId: a dialog that stood open while that
        became another thing acts no more. Empty: of the row itself."""
        return ""

    def changed(self, row: Any) -> str:
        """What to say where `about` has become another thing while the operator typed."""
        return "meanwhile something else has happened here. Look again."

    def context(self, row: Any, query: QueryDict) -> dict[str, Any]:
        """What its own template shows besides; `initial` in it fills the form."""
        return {}

    def form_for(self, row: Any, *data: Any, **options: Any) -> ReasonForm:
        """Its form, where its fields depend on the row."""
        return self.form(*data, **options)

    def act(self, row: Any, actor: Actor, **given: Any) -> str:
        """Do it, and say what was done. Raises NotPossible with nothing changed."""
        raise NotImplementedError

    def is_permitted(self, request: HttpRequest) -> bool:
        """True if this user may use it, on whatever row."""
        return request.user.has_perms(self.permissions)


@dataclass(frozen=True, slots=True)
class Offer:
    """A verb that this user may use on a row now, and where."""

    verb: Verb
    url: str


class VerbsAdmin(ModelAdmin):
    """A page whose row has verbs. What is impossible now, or not permitted, is not offered."""

    verbs: Sequence[Verb] = ()

    def get_urls(self) -> list[URLPattern]:
        dialogs = [
            path(
                f"<path:object_id>/{verb.name.replace('_', '-')}/",
                self.admin_site.admin_view(partial(self._dialog, verb)),
                name=self._url_name(verb),
            )
            for verb in self.verbs
        ]
        return [*dialogs, *super().get_urls()]

    def offered(
        self, request: HttpRequest, row: Any, verbs: Iterable[Verb] | None = None
    ) -> list[Offer]:
        """Those of `verbs`, of all by default, that are possible and permitted."""
        return [
            Offer(verb, reverse(f"admin:{self._url_name(verb)}", args=[row.pk]))
            for verb in (self.verbs if verbs is None else verbs)
            if verb.is_permitted(request) and not verb.why_not(row)
        ]

    def _url_name(self, verb: Verb) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{verb.name}"

    def _dialog(self, verb: Verb, request: HttpRequest, object_id: str) -> HttpResponse:
        if not verb.is_permitted(request):
            raise PermissionDenied
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404(f"There is no {self.opts.verbose_name} {object_id}.")
        if request.method != "POST":
            return self._show(verb, request, row, None)
        form = verb.form_for(row, request.POST, request.FILES)
        if not form.is_valid():
            return self._show(verb, request, row, form)
        if form.cleaned_data["about"] != verb.about(row):
            messages.error(request, f"Nothing was done: {verb.changed(row)}")
            return self._show(verb, request, row, None, form.cleaned_data["reason"])
        _act(verb, request, row, form)
        return HttpResponseRedirect(markup.page_url(row))

    def _show(
        self,
        verb: Verb,
        request: HttpRequest,
        row: Any,
        refused: ReasonForm | None,
        reason: str = "",
    ) -> TemplateResponse:
        """The dialog as the row is now. `reason`: what was typed into one that acts no more."""
        why_not = verb.why_not(row)
        details = {} if why_not else verb.context(row, request.GET)
        reason = reason or request.GET.get("reason", "")[:REASON_LIMIT]
        initial = {"about": verb.about(row), "reason": reason, **details.pop("initial", {})}
        context = {
            **self.admin_site.each_context(request),
            "title": f"{verb.title}: {markup.visible(str(row))}",
            "opts": self.opts,
            "verb": verb,
            "row": markup.foreign(str(row)),
            "why_not": why_not,
            "consequence": "" if why_not else verb.consequence(row),
            "form": refused or verb.form_for(row, initial=initial),
            "back": markup.page_url(row),
            "instead": self.offered(request, row) if why_not else (),
            "reason": reason,
            **details,
        }
        return TemplateResponse(request, verb.template, context)


def _act(verb: Verb, request: HttpRequest, row: Any, form: ReasonForm) -> None:
    actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
    try:
        messages.success(request, verb.act(row, actor, **form.given))
    except NotPossible as refused:
        messages.error(request, str(refused))
