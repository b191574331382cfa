"""Requests for a second person: asked, confirmed, refused, withdrawn."""

import logging
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.timezone import localtime

from msh.flows.errors import NotPossible, Proposal, SecondPersonNeeded
from msh.flows.operations import prune
from msh.flows.operations.guard import end_of
from msh.flows.wake_up import WakeUp, wake_up
from msh.four_eyes import store as act_requests
from msh.models import ActRequest, RequestState
from msh.protocol.four_eyes import Confirmed, NotAllowed, require_confirmable, require_open
from msh.store import plans
from msh.store.clock import read_clock
from msh.store.history import Actor

from .acts import ACTS

logger = logging.getLogger(__name__)
CONFIRM_PERMISSION = "msh.confirm_actrequest"
INTERRUPTED = (
    "Interrupted: the worker that pruned stopped or lost the database. What it removed stays"
    " removed. The nightly run removes the rest; to remove it earlier, submit another request."
)


def ask(needed: SecondPersonNeeded) -> ActRequest:
    """Store the request of an act that was not done. Who asks for the same again while it is open
    gets the same request."""
    row = row_of(needed.proposal, needed.actor)
    with transaction.atomic():
        same = ActRequest.objects.waiting(read_clock()).filter(
            act=row.act, asked_by=row.asked_by, parameters=row.parameters, facts=row.facts
        )
        if known := same.first():
            return known
        act_requests.insert_request(row, timedelta(seconds=settings.MSH_SECOND_PERSON_WITHIN))
    return row


def row_of(proposal: Proposal, actor: Actor) -> ActRequest:
    act = proposal.act
    return ActRequest(
        verb=act.verb,
        act=act.name,
        parameters=dict(act.parameters),
        facts=act.facts,
        text=proposal.text,
        partner_id=proposal.partner_id,
        direction=proposal.direction,
        message_id=proposal.message_id,
        about=proposal.about,
        asked_by=actor.name,
        reason=actor.reason,
    )


def text_of(row: ActRequest) -> str:
    """Return what whoever has asked is told, also that the same was refused before."""
    until = f"{localtime(row.until):%Y-%m-%d %H:%M %Z}"
    text = (
        f"Not done yet: a second person must confirm it until {until}"
        f" (request {row.pk}: {row.text})"
    )
    before = ActRequest.objects.filter(act=row.act, about=row.about, pk__lt=row.pk)
    last = before.exclude(about="").first()
    if last is None or last.state != RequestState.REFUSED:
        return text
    return f"{text}. {end_of(last, read_clock(), f'Request {last.pk} for the same action')}"


def confirm(key: int, by: Actor) -> str:
    """Do exactly what was asked for. Return what was done, as a sentence. Raises NotPossible, with
    nothing changed, also if it has changed since."""
    row = _open(key, by)
    act = ACTS[row.act]
    asked = act.ask(row.parameters)
    with transaction.atomic():
        row = _locked(key)
        _require_confirmable(row, by)
        words = f"{row.reason} (request {row.pk}, confirmed by {by.name}: {by.reason})"
        actor = Actor(row.asked_by, words, Confirmed(row.confirmed_act))
        outcome = act.do(row.parameters, asked, actor)
        act_requests.end_request(row, RequestState.CONFIRMED, by, outcome)
    wake_up(WakeUp.TRANSMIT, WakeUp.DELIVER)  # what the act has said before the commit
    return outcome


def refuse(key: int, by: Actor) -> None:
    with transaction.atomic():
        row = _locked(key)
        _require_confirmable(row, by)
        act_requests.end_request(row, RequestState.REFUSED, by)


def withdraw(key: int, by: Actor) -> None:
    """Withdraw the request of who has asked."""
    with transaction.atomic():
        row = _locked(key)
        try:
            require_open(row.value, read_clock())
        except NotAllowed as refused:
            raise NotPossible(str(refused)) from None
        if by.name != row.asked_by:
            raise NotPossible(f"Only {row.asked_by} can withdraw it. Refuse it instead.")
        act_requests.end_request(row, RequestState.WITHDRAWN, by)


def may_confirm(row: ActRequest, name: str) -> bool:
    """Whether the user of this name has the permissions: of the act too."""
    user = User.objects.filter(username=name).first()
    needed = (CONFIRM_PERMISSION, *ACTS[row.act].permissions)
    return user is not None and user.has_perms(needed)


def run_prune() -> None:
    """Prune as was confirmed, if it was; called by the clock."""
    for row in act_requests.unended_prunes():
        if row.started_at is not None:
            if act_requests.end_interrupted(row, prune.LEASE, INTERRUPTED):
                logger.warning("request %s: %s", row.pk, INTERRUPTED)
        elif act_requests.claim_prune(row):
            _prune(row)


def _prune(row: ActRequest) -> None:
    plans.plan_freely()
    try:
        counts = prune.prune_all(clock_is_right=row.parameters["clock_is_right"])
        outcome = f"{sum(counts.values())} rows removed."
    except (prune.PruningAlready, prune.ClockDoubtful) as refused:
        logger.warning("nothing was pruned: %s", refused)
        outcome = f"Nothing was removed: {refused}"
    act_requests.end_prune(row, outcome)


def _open(key: int, by: Actor) -> ActRequest:
    row = ActRequest.objects.filter(pk=key).first()
    if row is None:
        raise NotPossible(f"There is no request {key}.")
    _require_confirmable(row, by)
    return row


def _locked(key: int) -> ActRequest:
    row = act_requests.lock_request(key)
    if row is None:
        raise NotPossible(f"There is no request {key}.")
    return row


def _require_confirmable(row: ActRequest, by: Actor) -> None:
    permitted, now = may_confirm(row, by.name), read_clock()
    try:
        require_confirmable(row.value, by.name, permitted=permitted, now=now)
    except NotAllowed as refused:
        raise NotPossible(str(refused)) from None
