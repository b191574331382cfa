"""Operators' actions on a row: each action is a page of its own, shown as a dialog. They are
declared in `msh.flows.operations`, in `link_actions.py`, `conversation_actions.py` and
`actions.py`. A class is written only for an action whose dialog says more than its declaration.

GET shows what the action does to this row and asks for a reason. Only a POST with the CSRF token
acts. Both need the permissions of the action. The history records the user and the reason.

These are not the `actions` of Django's ModelAdmin, which act on the selected rows of a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextareaWidget

from msh.flows.errors import NotPossible, SecondPersonNeeded
from msh.flows.numbers import has_numbers
from msh.flows.operations import guard
from msh.flows.operations.operator_action import OperatorAction, Parameter
from msh.protocol.four_eyes import Alone
from msh.store.history import Actor

from . import markup, permitted, second_person

REASON_LIMIT = 500

Row = TypeVar("Row", bound=Model)
Row_contra = TypeVar("Row_contra", bound=Model, contravariant=True)


class ReasonForm(forms.Form):
    """`reason` is required. `version` is that of the row which the dialog showed."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Recorded in the history with your name.",
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput)

    field_order: Sequence[str] = ("reason",)

    def __init__(self, *data: object, **options: object) -> None:
        super().__init__(*data, **options)  # type: ignore[arg-type]  # as Django's own
        # Not by `visible_fields`: a bound field keeps the words that subclasses still change.
        first = next(one for one in self.fields.values() if not one.widget.is_hidden)
        first.widget.attrs["autofocus"] = True

    @property
    def action_fields(self) -> dict[str, Any]:
        others = ("reason", "version", second_person.ALONE)
        return {k: v for k, v in self.cleaned_data.items() if k not in others}


def number_field(limits: Parameter, widget: forms.Widget | None = None) -> forms.IntegerField:
    return forms.IntegerField(
        label=limits.label,
        min_value=limits.minimum,
        max_value=limits.maximum,
        widget=widget or UnfoldAdminIntegerFieldWidget(),
    )


def _form_of(action: OperatorAction) -> type[ReasonForm]:
    """Return a form with a field for each number that the action needs. Other parameters need a
    form of their own."""
    numbers = [one for one in action.parameters if one.label and one.kind is int]
    fields = {one.name: number_field(one) for one in numbers}
    return type("ActionForm", (ReasonForm,), fields) if fields else ReasonForm


class Details(NamedTuple):
    """Additional context for the template of a dialog, and the initial values of its form."""

    context: Mapping[str, object] = {}
    initial: Mapping[str, object] = {}


class ActionDialog(Generic[Row_contra]):
    """The dialog of an action on rows of one model. A plain one is made from the action's
    declaration and an icon.

    `dismiss` is the text of the button that closes the dialog.
    """

    action: OperatorAction
    icon: str
    recommended: bool = False
    is_dangerous: bool = False
    """Its button is marked as dangerous: what the action gives up cannot be recovered."""
    dismiss: str = "Cancel"
    form: type[ReasonForm] = ReasonForm
    template: str = "admin/msh/framework/dialog.html"

    def __init__(self, action: OperatorAction | None = None, icon: str = "") -> None:
        if action is not None:
            self.action, self.icon = action, icon
            self.form = _form_of(action)

    @property
    def name(self) -> str:
        return self.action.name

    @property
    def title(self) -> str:
        return self.action.title

    @property
    def irreversible(self) -> bool:
        return self.action.irreversible

    def why_not(self, row: Row_contra) -> str:
        """Why it is not possible now, as a clause with a full stop; empty if it is possible."""
        return self.action.why_not(row) if self.action.why_not else ""

    def refusal(self, row: Row_contra) -> str:
        """`why_not`, also for an action of numbers on a link whose messages have none."""
        partner = getattr(row, "partner", None) if self.action.of_numbers else None
        if partner is not None and not has_numbers(partner):
            return f"messages to and from {partner} have no sequence numbers."
        return self.why_not(row)

    def consequence(self, row: Row_contra) -> str:
        """Return the text that says what the action does to this row, and what the partner must
        do."""
        link = getattr(row, "link", None)
        return self.action.effect.format(partner=getattr(link or row, "partner", ""))

    def version(self, row: Row_contra) -> str:
        """Return what the dialog is about, such as a MessageId. If this changes while the dialog is
        open, the action is not done. Empty if the action applies to the row in any state."""
        return ", ".join(map(str, self.preconditions(row).values()))

    def conflict(self, row: Row_contra) -> str:
        """Return the text for the case that `version` changed while the dialog was open."""
        noun = self.action.subject.noun.lower() or "row"
        return f"the {noun} has changed in the meantime. Check it again."

    def preconditions(self, row: Row_contra) -> Mapping[str, object]:
        """Return what of `version` the flow compares again, under the lock, as its parameters."""
        return {}

    def context(self, row: Row_contra, query: QueryDict) -> Details:
        return Details()

    def fit(self, form: ReasonForm, row: Row_contra) -> ReasonForm:
        """Override it if the fields depend on the row."""
        return form

    def act(self, row: Row_contra, actor: Actor, form: ReasonForm) -> str:
        """Do it, and return what was done as a sentence. Raises NotPossible if nothing was."""
        subject = self.action.subject
        given = {**self.preconditions(row), **form.action_fields}
        done = self.action.do(*subject.parts(row), actor=actor, **given)
        return done.said_of(markup.escape_invisible(subject.name_of(row)))

    def is_recommended(self, row: Row_contra) -> bool:
        """Whether it is what helps this row: its button is filled."""
        return self.recommended

    def is_permitted(self, request: HttpRequest) -> bool:
        """Whether this user may use it on any row."""
        return request.user.has_perms(self.action.permissions)


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that is possible and permitted now, and its URL."""

    action: ActionDialog[Any]
    url: str
    recommended: bool = False


class ActionsAdmin(ModelAdmin, Generic[Row]):
    """A page whose row has actions. It offers those that are possible and permitted."""

    operator_actions: Sequence[ActionDialog[Row]] = ()
    acted_on: QuerySet[Any] | None = None
    """Rows as an action needs them, where `get_queryset` counts what only pages show."""

    def get_urls(self) -> list[URLPattern]:
        dialogs = [
            path(
                f"<path:object_id>/{action.name.replace('_', '-')}/",
                self.admin_site.admin_view(partial(self._dialog, action)),
                name=self._url_name(action),
            )
            for action in self.operator_actions
        ]
        return [*dialogs, *super().get_urls()]

    def offers(
        self, request: HttpRequest, row: Row, actions: Iterable[ActionDialog[Row]] | None = None
    ) -> list[Offer]:
        """Return those of `actions`, by default of all, that are possible and permitted."""
        return [
            Offer(
                action,
                markup.url_of_key(f"admin:{self._url_name(action)}", row.pk),
                action.is_recommended(row),
            )
            for action in (self.operator_actions if actions is None else actions)
            if action.is_permitted(request) and not action.refusal(row)
        ]

    def withheld(
        self,
        request: HttpRequest,
        row: Row,
        actions: Iterable[ActionDialog[Row]] | None = None,
        but_for: object = None,
    ) -> Sequence[str]:
        """Return a sentence for each role that may do what is possible or advised, but not
        permitted to this user. `but_for`: an action that the page names elsewhere."""
        possible = [
            action.action
            for action in (self.operator_actions if actions is None else actions)
            if not action.refusal(row)
        ]
        wanted = [one for one in (*possible, *self.advised(row)) if one is not but_for]
        return permitted.whom_to_ask_for(
            {
                action.title: action.permissions
                for action in wanted
                if not request.user.has_perms(action.permissions)
            }.items()
        )

    def advised(self, row: Row) -> Sequence[OperatorAction]:
        """The actions that the advice of the page names, also those on other rows."""
        return ()

    def _url_name(self, action: ActionDialog[Row]) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{action.name}"

    def _dialog(
        self, action: ActionDialog[Row], request: HttpRequest, object_id: str
    ) -> HttpResponse:
        if not action.is_permitted(request):
            raise PermissionDenied
        if request.method != "POST":
            return self._show(action, request, self._found(request, object_id), None)
        row = self._found(request, object_id, self.acted_on)
        form = action.fit(action.form(request.POST, request.FILES), row)
        second_person.offer_alone(form, action.action, request)
        if not form.is_valid():
            return self._show(action, request, self._found(request, object_id), form)
        if form.cleaned_data["version"] != action.version(row):
            row = self._found(request, object_id)
            messages.error(request, f"Nothing was done: {action.conflict(row)}")
            return self._show(action, request, row, None, form.cleaned_data["reason"])
        why_alone = form.cleaned_data.get(second_person.ALONE, "")
        approval = Alone(why_alone) if why_alone else None
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"], approval)
        try:
            messages.success(request, action.act(row, actor, form))
        except SecondPersonNeeded as needed:
            messages.warning(request, guard.ask(needed).text)
        except NotPossible as refused:
            messages.error(request, str(refused))
        return HttpResponseRedirect(markup.page_url(row))

    def _found(
        self, request: HttpRequest, object_id: str, rows: QuerySet[Any] | None = None
    ) -> Row:
        """Raises Http404."""
        if rows is not None and object_id.isdecimal():
            row = rows.filter(pk=object_id).first()
        else:
            row = self.get_object(request, object_id)
        if row is None:
            raise Http404(f"The {self.opts.verbose_name} {object_id} does not exist.")
        return cast("Row", row)

    def _show(
        self,
        action: ActionDialog[Row],
        request: HttpRequest,
        row: Row,
        refused: ReasonForm | None,
        reason: str = "",
    ) -> TemplateResponse:
        """The dialog for the row as it is now. `reason`: what was typed into an outdated one."""
        why_not = action.refusal(row)
        details = Details() if why_not else action.context(row, request.GET)
        reason = reason or request.GET.get("reason", "")[:REASON_LIMIT]
        initial = {"version": action.version(row), "reason": reason, **details.initial}
        form = refused or action.fit(action.form(initial=initial), row)
        if refused is None:
            second_person.offer_alone(form, action.action, request)
        context = {
            **self.admin_site.each_context(request),
            "title": f"{action.title}: {markup.escape_invisible(str(row))}",
            "opts": self.opts,
            "action": action,
            "row": markup.isolated(str(row)),
            "why_not": why_not,
            "consequence": "" if why_not else action.consequence(row),
            "second_person": second_person.notice(action.action, request),
            "form": form,
            "back": markup.page_url(row),
            "instead": self.offers(request, row) if why_not else (),
            "reason": reason,
            **details.context,
        }
        return TemplateResponse(request, action.template, context)
