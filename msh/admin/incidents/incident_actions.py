"""The actions on an incident: resolve, assign, add a note."""

from django import forms
from django.contrib.auth.models import User
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from msh.admin.framework.actions import REASON_LIMIT, ActionDialog, ReasonForm
from msh.flows.operations import actions
from msh.models import Incident


class Resolve(ActionDialog[Incident]):
    action = actions.RESOLVE
    icon = "check"


class TakeForm(ReasonForm):
    """Who takes an incident says enough by that."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Recorded in the history with your name, if you give one.",
    )


class AssignToMe(ActionDialog[Incident]):
    action = actions.ASSIGN_TO_ME
    icon = "front_hand"
    form: type[ReasonForm] = TakeForm

    def consequence(self, row: Incident) -> str:
        before = f" instead of {row.assigned_to}" if row.assigned_to else ""
        return f"The incident is assigned to you{before}. All users see this. Nothing else changes."

    def version(self, row: Incident) -> str:
        return row.assigned_to


def _assignees() -> list[tuple[str, str]]:
    staff = User.objects.filter(is_active=True, is_staff=True).order_by("username")
    return [("", "nobody"), *((name, name) for name in staff.values_list("username", flat=True))]


class AssignForm(ReasonForm):
    to = forms.ChoiceField(
        label="Assign to", required=False, choices=_assignees, widget=UnfoldAdminSelectWidget()
    )


class Assign(AssignToMe):
    action = actions.ASSIGN
    icon = "person_add"
    form = AssignForm

    def consequence(self, row: Incident) -> str:
        return (
            f"The incident is now assigned to {row.assigned_to or 'nobody'}. All users see the"
            " assignment. Nobody is notified, and nothing else changes."
        )


ACTIONS: tuple[ActionDialog[Incident], ...] = (
    Resolve(),
    AssignToMe(),
    Assign(),
    ActionDialog(actions.NOTE, "edit_note"),
)
