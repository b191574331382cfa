"""The actions on an incident: resolve, assign, add a note."""

from django import forms
from django.contrib.auth.models import User
from unfold.widgets import UnfoldAdminSelectWidget

from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import actions, change_incident
from msh.models import Incident
from msh.store.history import Actor


def _resolved(incident: Incident) -> str:
    return f"it was resolved by {incident.resolved_by}." if incident.resolved_at else ""


class Resolve(ActionDialog[Incident]):
    action = actions.RESOLVE
    icon = "check"
    recommended = True

    def why_not(self, row: Incident) -> str:
        return _resolved(row) or change_incident.cause_left(row)


class AssignToMe(ActionDialog[Incident]):
    action = actions.ASSIGN_TO_ME
    icon = "front_hand"

    def why_not(self, row: Incident) -> str:
        return _resolved(row)

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

    def act(self, row: Incident, actor: Actor, form: ReasonForm) -> str:
        super().act(row, actor, form)
        return f"The incident is assigned to {form.cleaned_data['to'] or 'nobody'}."


class Note(ActionDialog[Incident]):
    action = actions.NOTE
    icon = "edit_note"


ACTIONS = (Resolve(), AssignToMe(), Assign(), Note())
