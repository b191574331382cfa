"""Requests for a second person: asked, ended, and what is written of an act that goes ahead alone.

Each has a row of the history, of the message or the link that it is about.
"""

from datetime import datetime, timedelta

from django.db.models import Exists
from django.db.models.functions import Now

from msh.models import ActRequest, Direction, PruneRun, RequestState
from msh.models.operators.act_request import ActRequestQuerySet
from msh.protocol.kinds import IncidentKind
from msh.store import history, incidents
from msh.store.clock import read_clock
from msh.store.history import Actor
from partners.models import Partner


def insert_request(row: ActRequest, within: timedelta) -> None:
    row.until = read_clock() + within
    row.save()
    asked = Actor(row.asked_by, row.reason)
    _record(row, "SecondPersonAsked", f"request {row.pk}: {row.text}", asked)


def lock_request(key: int) -> ActRequest | None:
    rows = ActRequest.objects.select_related("partner")
    return rows.select_for_update(of=("self",), no_key=True).filter(pk=key).first()


def end_request(row: ActRequest, state: RequestState, by: Actor, outcome: str = "") -> None:
    """Store the end of a request; its row is locked."""
    row.state, row.decided_by, row.decided_at = state, by.name, read_clock()
    row.words, row.outcome = by.reason, outcome
    row.save(update_fields=["state", "decided_by", "decided_at", "words", "outcome"])
    detail = f"request {row.pk} of {row.asked_by}: {row.text}"
    _record(row, _EVENTS[state], detail, by)


_EVENTS = {
    RequestState.CONFIRMED: "SecondPersonConfirmed",
    RequestState.REFUSED: "SecondPersonRefused",
    RequestState.WITHDRAWN: "RequestWithdrawn",
}


def unended_prunes() -> ActRequestQuerySet:
    """Return confirmed requests to prune that are due or under way, or whose worker has died."""
    confirmed = ActRequest.objects.filter(state=RequestState.CONFIRMED, verb="prune")
    return confirmed.filter(ended_at=None).order_by("pk")


def claim_prune(row: ActRequest) -> bool:
    """Claim it. Return False if another worker has begun it."""
    return bool(unended_prunes().filter(pk=row.pk, started_at=None).update(started_at=Now()))


def end_interrupted(row: ActRequest, lease: timedelta, outcome: str) -> bool:
    """End a prune that began more than a lease ago, if no run holds its lease: its worker has
    died."""
    now = Now()
    alive = PruneRun.objects.filter(holder__isnull=False, leased_until__range=(now, now + lease))
    begun = unended_prunes().filter(~Exists(alive), pk=row.pk, started_at__lt=now - lease)
    return bool(begun.update(ended_at=now, outcome=outcome))


def end_prune(row: ActRequest, outcome: str) -> None:
    ActRequest.objects.filter(pk=row.pk).update(ended_at=Now(), outcome=outcome)


def call_out(row: ActRequest, why: str, at: datetime | None = None) -> None:
    """Write, of an act that goes ahead alone, a row, an incident, and its place in the history, in
    the transaction of the act. An incident belongs to a partner: one of no partner to the first."""
    row.state, row.decided_by = RequestState.CONFIRMED, row.asked_by
    row.until = row.decided_at = at or read_clock()
    row.words, row.outcome = why, "Done alone."
    row.started_at = row.ended_at = row.until
    row.save()
    detail = f"{row.asked_by} went ahead alone: {row.text} Why alone: {why}"
    _record(row, "WentAheadAlone", detail, Actor(row.asked_by, row.reason))
    first = Partner.objects.order_by("pk").values_list("pk", flat=True).first()
    partner_id = row.partner_id or first
    if partner_id is not None:
        direction, kind = row.direction or Direction.IN, IncidentKind.WENT_AHEAD_ALONE
        incidents.open_now(partner_id, direction, kind, row.message_id, f"{detail}; {row.reason}")


def _record(row: ActRequest, event: str, detail: str, actor: Actor) -> None:
    """Write the history, and nothing for an act of no partner: its row is its record."""
    if row.partner_id is None:
        return
    history.record(
        history.HistoryRow(
            row.partner_id,
            row.direction or Direction.IN,
            event,
            row.message_id,
            detail=history.with_reason(detail, actor),
            subject=history.MESSAGE if row.message_id else history.LINK,
            actor=actor.name,
        )
    )
