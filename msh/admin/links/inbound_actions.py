"""What an operator says of the numbers that a partner sends."""

from typing import Any

from django import forms
from django.http import QueryDict
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.admin.framework.actions import OperatorAction, ReasonForm
from msh.flows import resynchronise
from msh.flows.operate import NotPossible
from msh.models import InboundLink
from msh.protocol import receiver, sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.receiver import OnUnexpectedFirst
from msh.store.history import Actor


class ReleaseReset(OperatorAction):
    name = "allow_reset"
    title = "Release a reset"
    icon = "restart_alt"
    permissions = ("msh.view_inboundlink", "msh.allow_reset_inboundlink")

    def why_not(self, row: InboundLink) -> str:
        try:
            receiver.allow_reset(row.receiving)
        except IllegalTransition:
            if row.reset_allowed:
                return "its next number 1 is let in already."
            return f"{row.partner} has not sent anything yet."
        return ""

    def consequence(self, row: InboundLink) -> str:
        return (
            f"The next number 1 of {row.partner} is accepted as a reset of its numbers, whatever"
            " the agreement says of it. Once. Nothing is accepted by this alone: the partner has"
            " to send it (again)."
        )

    def act(self, row: InboundLink, actor: Actor, **fields: Any) -> str:
        resynchronise.allow_reset(row.partner, actor)
        return "Its next number 1 is accepted."


class HoldResets(OperatorAction):
    name = "hold_resets"
    title = "Hold resets"
    icon = "front_hand"
    permissions = ("msh.view_inboundlink", "msh.hold_resets_inboundlink")

    def why_not(self, row: InboundLink) -> str:
        agreements = row.partner.agreements.exclude(on_unexpected_first=OnUnexpectedFirst.HOLD)
        if row.reset_allowed or agreements.exists():
            return ""
        return f"resets of {row.partner} are held already."

    def consequence(self, row: InboundLink) -> str:
        return (
            f"A number 1 out of turn from {row.partner} is not accepted any more: the partner is"
            " told to wait, and an incident asks you to release it. This sets On unexpected first"
            " to hold in every agreement with the partner, and lasts until somebody changes them."
            " The partner has nothing to do."
        )

    def act(self, row: InboundLink, actor: Actor, **fields: Any) -> str:
        resynchronise.hold_resets(row.partner, actor)
        return f"Resets of {row.partner} are held."


def _number(widget: forms.Widget) -> forms.IntegerField:
    return forms.IntegerField(min_value=sequence.FIRST, max_value=sequence.LAST, widget=widget)


class NumberForm(forms.Form):
    """The number whose consequence is to be seen."""

    number = _number(UnfoldAdminIntegerFieldWidget())


class ExpectForm(ReasonForm):
    """The reason, and the number whose consequence was seen."""

    number = _number(forms.HiddenInput())


class Expect(OperatorAction):
    name = "expect"
    title = "Expect number"
    icon = "skip_next"
    irreversible = True
    form = ExpectForm
    template = "admin/msh/links/expect.html"
    permissions = ("msh.view_inboundlink", "msh.expect_inboundlink")

    def consequence(self, row: InboundLink) -> str:
        return (
            f"The number that you give is taken next from {row.partner}. Those between"
            f" {row.last_number or 'none'}, the last one accepted, and it are given up as lost:"
            " first see whether the partner can send them again."
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
        return f"Number {fields['number']} is taken next. Given up as lost: {lost}."


ACTIONS = (ReleaseReset(), HoldResets(), Expect())
