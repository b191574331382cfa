"""The actions on a link from a partner: its resets, and the expected number."""

from django import forms
from django.http import QueryDict
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.admin.framework.actions import ActionDialog, Details, ReasonForm
from msh.flows.errors import NotPossible
from msh.flows.operations import change_inbound_link, link_actions
from msh.flows.operations.operator_action import NUMBER, Parameter
from msh.models import InboundLink
from msh.protocol import receiver
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import OnUnexpectedFirst
from msh.store.history import Actor


class AllowReset(ActionDialog[InboundLink]):
    action = link_actions.ALLOW_RESET
    icon = "restart_alt"

    def why_not(self, row: InboundLink) -> str:
        try:
            receiver.allow_reset(row.receiving)
        except IllegalTransition:
            if row.reset_allowed:
                return "a reset is already allowed."
            return f"{row.partner} has not sent anything yet."
        return ""

    def act(self, row: InboundLink, actor: Actor, form: ReasonForm) -> str:
        self.action.flow(row.partner, actor)
        return f"The next message with number 1 from {row.partner} is accepted as a reset."


class HoldResets(ActionDialog[InboundLink]):
    action = link_actions.HOLD_RESETS
    icon = "front_hand"

    def why_not(self, row: InboundLink) -> str:
        agreements = row.partner.agreements.exclude(on_unexpected_first=OnUnexpectedFirst.HOLD)
        if row.reset_allowed or agreements.exists():
            return ""
        return f"unexpected resets of {row.partner} are already held."

    def act(self, row: InboundLink, actor: Actor, form: ReasonForm) -> str:
        self.action.flow(row.partner, actor)
        return f"Unexpected resets of {row.partner} are held."


def number_field(limits: Parameter, widget: forms.Widget, label: str = "") -> forms.IntegerField:
    return forms.IntegerField(
        label=label or None, min_value=limits.minimum, max_value=limits.maximum, widget=widget
    )


class NumberForm(forms.Form):
    """The number whose effect is to be shown."""

    number = number_field(NUMBER, UnfoldAdminIntegerFieldWidget())


class ExpectForm(ReasonForm):
    """The reason, and the number whose effect was shown."""

    number = number_field(NUMBER, forms.HiddenInput())


class SetExpectedNumber(ActionDialog[InboundLink]):
    action = link_actions.EXPECT
    icon = "skip_next"
    form = ExpectForm
    template = "admin/msh/links/expect.html"

    def consequence(self, row: InboundLink) -> str:
        return (
            f"The number that you enter is the next one to be accepted from {row.partner}. The"
            f" numbers between the last accepted one, {row.last_number or 'none'}, and the new one"
            " are given up as lost. First ask the partner whether it can send them again."
        )

    def version(self, row: InboundLink) -> str:
        return str(row.last_number)

    def context(self, row: InboundLink, query: QueryDict) -> Details:
        typed = NumberForm(query if "number" in query else None)
        if not typed.is_valid():
            return Details({"typed": typed})
        number = typed.cleaned_data["number"]
        try:
            lost = change_inbound_link.given_up(row, number)
        except NotPossible as problem:
            return Details({"typed": typed, "problem": str(problem)})
        shown = {"typed": typed, "number": number, "given_up": lost}
        return Details(shown, {"number": number})

    def act(self, row: InboundLink, actor: Actor, form: ReasonForm) -> str:
        number = form.cleaned_data["number"]
        lost = self.action.flow(row.partner, number, actor)
        return f"Number {number} is expected next. Given up as lost: {lost}."


ACTIONS = (AllowReset(), HoldResets(), SetExpectedNumber())
