"""Acts that a second person confirms, as pages show them: in the dialog of the act, and as a line
on the pages of what they are about."""

from collections.abc import Sequence

from django import forms
from django.conf import settings
from django.db.models import Model, Q
from django.http import HttpRequest
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.flows.operations.guard import is_needed, is_on, may_go_alone
from msh.flows.operations.operator_action import OperatorAction
from msh.models import ActRequest, Direction, InboundLink, OutboundLink, place_of
from msh.protocol.four_eyes import Verb
from partners.models import Partner

from .time_format import format_seconds

ALONE = "alone"
LIMIT = 300
_WHEN = {
    Verb.UNKNOWN: "With the verdict unknown, a",
    Verb.REWIND: "If messages that the partner has acknowledged are sent again, a",
}


def notice(action: OperatorAction, request: HttpRequest) -> str:
    """Return the text of the dialog about the second person; empty if the action needs none."""
    verb = action.second_person
    if verb is None or not is_needed(verb, request.user.get_username()):
        return ""
    within = format_seconds(settings.MSH_SECOND_PERSON_WITHIN)
    who = _WHEN.get(verb, "A")
    return f"{who} second person must confirm this within {within}. Nothing is done before that."


def offer_alone(form: forms.Form, action: OperatorAction, request: HttpRequest) -> None:
    """Add the field to the form, for who may go ahead alone."""
    verb, name = action.second_person, request.user.get_username()
    if verb is not None and is_needed(verb, name) and may_go_alone(name):
        form.fields[ALONE] = forms.CharField(
            label="Reason to go ahead alone",
            required=False,
            max_length=LIMIT,
            widget=UnfoldAdminTextInputWidget(),
            help_text="Leave empty to ask a second person. With a reason, the action is done"
            " now, and an incident reports it.",
        )


def asked_about(row: Model) -> Sequence[ActRequest]:
    """The open requests that its page shows. None are read where there is no rule."""
    if not is_on():
        return ()
    if isinstance(row, OutboundLink | InboundLink):
        direction = Direction.OUT if isinstance(row, OutboundLink) else Direction.IN
        about = Q(partner=row.partner_id, direction=direction)
    else:
        about = Q(partner=row) if isinstance(row, Partner) else Q(about=place_of(row))
    return list(ActRequest.objects.waiting(timezone.now()).filter(about).order_by("pk"))


def waiting() -> Sequence[ActRequest]:
    """All open requests, those that lapse first before others."""
    rows = ActRequest.objects.waiting(timezone.now()) if is_on() else ActRequest.objects.none()
    return list(rows.order_by("until", "pk")[:20])
