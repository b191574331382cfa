"""What an operator does with an incident: take it, give it away, write a note, resolve it."""

from typing import Any

from django import forms
from django.contrib.auth.models import User
from unfold.widgets import UnfoldAdminSelectWidget

from msh.admin.framework.actions import OperatorAction, ReasonForm
from msh.flows import attend, operate
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
        return _resolved(row) or operate.unmended(row)

    def consequence(self, row: Incident) -> str:
        return (
            "The incident is closed with your reason. Nothing is sent, accepted or changed by it:"
            " the same cause opens a new incident when it comes again. The partner has nothing to"
            " do."
        )

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        operate.resolve(row, actor)
        return "The incident is resolved."


class Take(OperatorAction):
    name = "take"
    title = "Take it"
    icon = "front_hand"
    permissions = ASSIGN

    def why_not(self, row: Incident) -> str:
        return _resolved(row)

    def consequence(self, row: Incident) -> str:
        before = f" instead of {row.assigned_to}" if row.assigned_to else ""
        return f"Everybody sees that you attend to it{before}. Nothing else changes."

    def version(self, row: Incident) -> str:
        return row.assigned_to

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        attend.assign(row, actor.name, actor)
        return "You attend to this incident."


class AssignForm(ReasonForm):
    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        staff = User.objects.filter(is_active=True, is_staff=True).order_by("username")
        names = [(name, name) for name in staff.values_list("username", flat=True)]
        self.fields["to"] = forms.ChoiceField(
            label="To",
            required=False,
            choices=[("", "nobody"), *names],
            widget=UnfoldAdminSelectWidget(),
        )


class Assign(Take):
    name = "assign"
    title = "Assign"
    icon = "person_add"
    form = AssignForm

    def consequence(self, row: Incident) -> str:
        return (
            f"It is {row.assigned_to or 'nobody'}'s now. Everybody sees whose it is; nothing else"
            " changes, and nobody is called."
        )

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        attend.assign(row, fields["to"], actor)
        return f"{fields['to'] or 'Nobody'} attends to this incident."


class Note(OperatorAction):
    name = "note"
    title = "Write a note"
    icon = "edit_note"
    permissions = ASSIGN

    def consequence(self, row: Incident) -> str:
        return "Your words are kept with the incident and shown to everybody. Nothing else changes."

    def act(self, row: Incident, actor: Actor, **fields: Any) -> str:
        attend.note(row, actor)
        return "Your note is kept."


ACTIONS = (Resolve(), Take(), Assign(), Note())
