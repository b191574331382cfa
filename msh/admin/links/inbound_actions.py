"""The actions on a link from a partner: its resets, and the expected number."""

from typing import Any

from django import forms
from django.http import QueryDict
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.admin.framework.actions import OperatorAction, ReasonForm
from msh.flows.errors import NotPossible
from msh.flows.operations import resynchronise
from msh.models import InboundLink
from msh.protocol import receiver, sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.receiver import OnUnexpectedFirst
from msh.store.history import Actor


class AllowReset(OperatorAction):
    name = "allow_reset"
    title = "Allow reset"
    icon = "restart_alt"
    permissions = ("msh.view_inboundlink", "msh.allow_reset_inboundlink")

    def why_not(self, row: InboundLink) -> str:
        try:
            receiver.allow_reset(row.receiving)
        except IllegalTransition:
            if row.reset_allowed:
                return "its next number 1 is already allowed."
            return f"{row.partner} has not sent anything yet."
        return ""

    def consequence(self, row: InboundLink) -> str:
        return (
            f"The next message from {row.partner} with number 1 is accepted as a reset of its"
            " sequence numbers, once, whatever the agreement says. The partner must send it"
            " (again)."
        )

    def act(self, row: InboundLink, actor: Actor, **fields: Any) -> str:
        resynchronise.allow_reset(row.partner, actor)
        return f"The next number 1 from {row.partner} is accepted."


class HoldResets(OperatorAction):
    name = "hold_resets"
    title = "Hold resets"
    icon = "front_hand"
    permissions = ("msh.view_inboundlink", "msh.hold_resets_inboundlink")

    def why_not(self, row: InboundLink) -> str:
        agreements = row.partner.agreements.exclude(on_unexpected_first=OnUnexpectedFirst.HOLD)
        if row.reset_allowed or agreements.exists():
            return ""
        return f"resets of {row.partner} are already held."

    def consequence(self, row: InboundLink) -> str:
        return (
            f"An unexpected number 1 from {row.partner} is no longer accepted: the partner is told"
            " to wait, and an incident is opened. This sets On unexpected first to hold in all"
            " agreements with the partner, until somebody changes them. The partner does not have"
            " to do anything."
        )

    def act(self, row: InboundLink, actor: Actor, **fields: Any) -> str:
        resynchronise.hold_resets(row.partner, actor)
        return f"Resets of {row.partner} are held."


def _number(widget: forms.Widget) -> forms.IntegerField:
    return forms.IntegerField(min_value=sequence.FIRST, max_value=sequence.LAST, widget=widget)


class NumberForm(forms.Form):
    """The number whose effect is to be shown."""

    number = _number(UnfoldAdminIntegerFieldWidget())


class ExpectForm(ReasonForm):
    """The reason, and the number whose effect was shown."""

    number = _number(forms.HiddenInput())


class SetExpectedNumber(OperatorAction):
    name = "expect"
    title = "Set expected number"
    icon = "skip_next"
    irreversible = True
    form = ExpectForm
    template = "admin/msh/links/expect.html"
    permissions = ("msh.view_inboundlink", "msh.expect_inboundlink")

    def consequence(self, row: InboundLink) -> str:
        return (
            f"The number that you enter is the next one to be accepted from {row.partner}. The"
            f" numbers between the last accepted one, {row.last_number or 'none'}, and the new one"
            " are given up as lost. First ask the partner whether it can send them again."
        )

    def version(self, row: InboundLink) -> str:
        return str(row.last_number)

    def context(self, row: InboundLink, query: QueryDict) -> dict[str, Any]:
        typed = NumberForm(query if "number" in query else None)
        if not typed.is_valid():
            return {"typed": typed}
        number = typed.cleaned_data["number"]
        try:
            lost = resynchronise.given_up(row, number)
        except NotPossible as problem:
            return {"typed": typed, "problem": str(problem)}
        initial = {"number": number}
        return {"typed": typed, "number": number, "given_up": lost, "initial": initial}

    def act(self, row: InboundLink, actor: Actor, **fields: Any) -> str:
        lost = resynchronise.expect(row.partner, fields["number"], actor)
        return f"Number {fields['number']} is expected next. Given up as lost: {lost}."


ACTIONS = (AllowReset(), HoldResets(), SetExpectedNumber())
