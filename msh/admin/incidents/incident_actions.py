"""The actions on an incident: resolve, assign, add a note."""

from typing import Any

from django import forms
from django.contrib.auth.models import User
from unfold.widgets import UnfoldAdminSelectWidget

from msh.admin.framework.actions import OperatorAction, ReasonForm
from msh.flows.operations import change_incident, change_link
from msh.models import Incident
from msh.store.history import Actor

ASSIGN = ("msh.view_incident", "msh.assign_incident")


def _resolved(incident: Incident) -> str:
    return f"it was resolved by {incident.resolved_by}." if incident.resolved_at else ""


class Resolve(OperatorAction):
    name = "resolve"
    title = "Resolve"
    icon = "check"
    recommended = True
    permissions = ("msh.view_incident", "msh.resolve_incident")

    def why_not(self, row: Incident) -> str:
        return _resolved(row) or change_link.unmended(row)

    def consequence(self, row: Incident) -> str:
        return (
            "The incident is closed with your reason. Nothing else changes. If the same cause"
            " occurs again, a new incident is opened. The partner does not have to do anything."
        )

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        change_link.resolve(row, actor)
        return "The incident is resolved."


class AssignToMe(OperatorAction):
    name = "take"
    title = "Assign to me"
    icon = "front_hand"
    permissions = ASSIGN

    def why_not(self, row: Incident) -> str:
        return _resolved(row)

    def consequence(self, row: Incident) -> str:
        before = f" instead of {row.assigned_to}" if row.assigned_to else ""
        return f"The incident is assigned to you{before}. All users see this. Nothing else changes."

    def version(self, row: Incident) -> str:
        return row.assigned_to

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        change_incident.assign(row, actor.name, actor)
        return "The incident is assigned to you."


class AssignForm(ReasonForm):
    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        staff = User.objects.filter(is_active=True, is_staff=True).order_by("username")
        names = [(name, name) for name in staff.values_list("username", flat=True)]
        self.fields["to"] = forms.ChoiceField(
            label="Assign to",
            required=False,
            choices=[("", "nobody"), *names],
            widget=UnfoldAdminSelectWidget(),
        )


class Assign(AssignToMe):
    name = "assign"
    title = "Assign"
    icon = "person_add"
    form = AssignForm

    def consequence(self, row: Incident) -> str:
        return (
            f"The incident is now assigned to {row.assigned_to or 'nobody'}. All users see the"
            " assignment. Nobody is notified, and nothing else changes."
        )

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        change_incident.assign(row, fields["to"], actor)
        return f"The incident is assigned to {fields['to'] or 'nobody'}."


class Note(OperatorAction):
    name = "note"
    title = "Add note"
    icon = "edit_note"
    permissions = ASSIGN

    def consequence(self, row: Incident) -> str:
        return "The note is stored with the incident. All users see it. Nothing else changes."

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        change_incident.note(row, actor)
        return "Note added."


ACTIONS = (Resolve(), AssignToMe(), Assign(), Note())
