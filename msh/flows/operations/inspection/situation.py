"""The situation of a message to be sent and of its link, as values read from the rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msh.models import Attempt, OutboundMessage, OutboundState, PartyEvent
from msh.protocol.kinds import PartyEventKind
from msh.protocol.lane import Lane
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations import queue_place
from msh.store.operations.queue_place import Place

ENDED = {
    OutboundState.ACKNOWLEDGED,
    OutboundState.CANCELLED,
    OutboundState.SENT,
    OutboundState.FAILED,
}


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """`ended_at` None while it is under way, or if its worker was lost."""

    claimed_at: datetime
    ended_at: datetime | None
    outcome: str
    detail: str
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A message and its link, as their rows say.

    `attempt`: the last one of the message in flight; of an ended or BestEffort message, its own.
    `due`: the end of the lease of a BestEffort message. `stopped`: which processes show no sign of
    life, in words; empty unless the work is overdue.
    """

    message_id: str
    state: str
    best_effort: bool
    submitted_at: datetime
    completed_at: datetime | None
    due: datetime | None
    verdict: str
    lane: Lane
    suspended_since: datetime | None
    suspended_detail: str
    attempt: LastAttempt | None
    place: Place
    stopped: str = ""
    failed_for: str = ""
    """Why nothing more of it is sent, in the words of who ended it."""
    sent_instead: bool = False
    """A copy of it was submitted."""
    suspended_reason: Reason = Reason.NONE


def situation_of(message: OutboundMessage) -> Situation:
    link = message.link
    best_effort = message.semantics == DeliverySemantics.BEST_EFFORT
    of_itself = best_effort or message.state in ENDED or link.in_flight_id is None
    return Situation(
        message_id=message.message_id,
        state=message.state,
        best_effort=best_effort,
        submitted_at=message.submitted_at,
        completed_at=message.completed_at,
        due=message.due,
        verdict=message.outcome,
        lane=link.lane,
        suspended_since=link.suspended_since,
        suspended_detail=link.suspended_detail,
        suspended_reason=Reason(link.suspended_reason),
        attempt=_last_attempt(message.pk if of_itself else link.in_flight_id),
        place=_place_of(message, best_effort=best_effort),
        failed_for=why_they_failed([message]).get(message.pk, ""),
        sent_instead=message.corrected_by.exists(),
    )


def why_they_failed(messages: Iterable[OutboundMessage]) -> Mapping[int, str]:
    """By key, as the From-Party was told."""
    failed = [one.pk for one in messages if one.state == OutboundState.FAILED]
    if not failed:
        return {}
    told = PartyEvent.objects.filter(message__in=failed, kind=PartyEventKind.FAILED)
    rows = told.order_by("pk").values_list("message_id", "detail")
    return {key: " ".join(detail.split()) for key, detail in rows}


def _last_attempt(key: int | None) -> LastAttempt | None:
    attempt = Attempt.objects.filter(message=key).order_by("-number").first()
    if attempt is None:
        return None
    told = attempt.outcome, attempt.detail, Reason(attempt.reason)
    return LastAttempt(attempt.claimed_at, attempt.ended_at, *told)


def _place_of(message: OutboundMessage, *, best_effort: bool) -> Place:
    if best_effort:
        return queue_place.place_of_best_effort(message.link_id, message.pk)
    if message.state == OutboundState.REWOUND:
        number = message.sequence_number or 0
        return queue_place.place_of_rewound(message.link_id, message.epoch or 0, number)
    return queue_place.place_in_queue(message.link_id, message.pk)
