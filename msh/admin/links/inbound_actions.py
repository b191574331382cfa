"""The actions on a link from a partner: the expected number, and those that are dialogs as they are
declared."""

from django import forms
from django.http import QueryDict

from msh.admin.framework.actions import ActionDialog, Details, ReasonForm, number_field
from msh.flows.errors import NotPossible
from msh.flows.operations import change_inbound_link, link_actions
from msh.models import InboundLink


class NumberForm(forms.Form):
    """The number whose effect is to be shown."""

    number = number_field(link_actions.NUMBER)


class ExpectForm(ReasonForm):
    """The reason, and the number whose effect was shown."""

    number = number_field(link_actions.NUMBER, forms.HiddenInput())


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


RESUME_DELIVERIES: ActionDialog[InboundLink] = ActionDialog(
    link_actions.RESUME_DELIVERIES, "play_arrow"
)
ACTIONS: tuple[ActionDialog[InboundLink], ...] = (
    ActionDialog(link_actions.ALLOW_RESET, "restart_alt"),
    ActionDialog(link_actions.HOLD_RESETS, "front_hand"),
    SetExpectedNumber(),
    ActionDialog(link_actions.HOLD_DELIVERIES, "pause"),
    RESUME_DELIVERIES,
    ActionDialog(link_actions.SET_LAST_NUMBER_IN, "start"),
)
