"""Actions for sequence numbers out of sync: compare both sides first, then repair (D17, D43)."""

from collections.abc import Mapping

from django import forms
from django.http import QueryDict
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.actions import Details, ReasonForm
from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions, resynchronise
from msh.flows.operations.inspection.causes import Help
from msh.models import OutboundLink
from msh.protocol import sequence
from msh.protocol.link_status import LinkStatus
from msh.protocol.resynchronisation import Plan, Repair
from msh.store.history import Actor
from partners.models import Partner

from .advice import helps_first
from .outbound_actions import LinkDialog

HAS, LACKS = "has", "lacks"


class PartnerStateForm(forms.Form):
    """The form for what the partner's operator says, if the partner's MSH cannot be asked."""

    last = forms.IntegerField(
        label="Last accepted number",
        min_value=0,
        max_value=sequence.LAST,
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text="0 if the partner has not accepted any message from us.",
    )
    last_id = forms.CharField(
        label="MessageId of that message",
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Required unless the number is 0: a number alone proves nothing.",
    )
    in_flight = forms.ChoiceField(
        label="Message in flight",
        required=False,
        choices=[("", "unknown"), (HAS, "received"), (LACKS, "not received")],
        widget=UnfoldAdminSelectWidget(),
    )

    def __init__(self, flying: str, data: Mapping[str, object] | None = None) -> None:
        """`flying`: the MessageId in flight, or ""."""
        super().__init__(data)
        self._flying = flying
        if flying:
            self.fields["in_flight"].help_text = f"MessageId {markup.escape_invisible(flying)}."
        else:
            del self.fields["in_flight"]

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("last") and not cleaned.get("last_id"):
            self.add_error(
                "last_id", "Enter the MessageId of the last message that the partner accepted."
            )
        return cleaned

    @property
    def status(self) -> LinkStatus:
        entered = self.cleaned_data
        answer = entered.get("in_flight")
        known = {self._flying: answer == HAS} if answer else {}
        return LinkStatus(entered["last"] or None, entered["last_id"], known=known)


class ResynchroniseForm(ReasonForm):
    """The reason, and what the dialog compared: as typed, or empty if the partner was asked."""

    last = forms.IntegerField(required=False, widget=forms.HiddenInput)
    last_id = forms.CharField(required=False, widget=forms.HiddenInput)
    in_flight = forms.CharField(required=False, widget=forms.HiddenInput)
    agreed = forms.CharField(widget=forms.HiddenInput)


class Resynchronise(LinkDialog):
    action = link_actions.RESYNCHRONISE
    icon = "sync"
    form = ResynchroniseForm
    template = "admin/msh/links/resynchronise.html"

    def is_recommended(self, row: OutboundLink) -> bool:
        return helps_first(row, Help.RESYNCHRONISE)

    def applies(self, plan: Plan) -> bool:
        """Whether the action would do what the plan says."""
        return plan.repair is not Repair.ASK

    def context(self, row: OutboundLink, query: QueryDict) -> Details:
        typed = PartnerStateForm(_in_flight_id(row), query if "last" in query else None)
        try:
            compared = resynchronise.compare(row.partner, _partner_state(row.partner, typed))
        except NotPossible as problem:
            return Details({"typed": typed, "problem": str(problem)})
        entered = typed.cleaned_data if typed.is_bound else {}
        applies = self.applies(compared.plan)
        ids = compared.ours.in_flight_message_id, compared.theirs.accepted_message_id
        named = {"flying": markup.isolated(ids[0]), "accepted": markup.isolated(ids[1])}
        shown = {"typed": typed, "compared": compared, "applies": applies, **named}
        return Details(shown, {**entered, "agreed": compared.agreed})

    def act(self, row: OutboundLink, actor: Actor, form: ReasonForm) -> str:
        entered = form.cleaned_data
        is_typed = entered["last"] is not None
        typed = PartnerStateForm(_in_flight_id(row), entered if is_typed else None)
        theirs = _partner_state(row.partner, typed)
        self.action.flow(row.partner, theirs, actor, agreed=entered["agreed"])
        return self.done(row)


class Rewind(Resynchronise):
    action = link_actions.REWIND
    icon = "fast_rewind"

    def is_recommended(self, row: OutboundLink) -> bool:
        return False

    def applies(self, plan: Plan) -> bool:
        return plan.repair is Repair.REWIND


def _in_flight_id(row: OutboundLink) -> str:
    return row.in_flight.message_id if row.in_flight else ""


def _partner_state(partner: Partner, typed: PartnerStateForm) -> LinkStatus:
    """As typed, or else asked over the network, for which the dialog waits."""
    if not typed.is_bound:
        return resynchronise.ask(partner)
    if not typed.is_valid():
        raise NotPossible("Enter the last message that the partner accepted.")
    return typed.status


RESYNCHRONISE = Resynchronise()
ACTIONS = (RESYNCHRONISE, Rewind())
