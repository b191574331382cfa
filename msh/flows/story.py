"""The whole life of a message, from every row that knows of it, and how far messages have come."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from django.db.models import Count

from msh.models import Attempt, Delivery, Direction, History, PartyEvent, Signal


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened. `event` is the name of its event or row; `to_state` is the state
    after it."""

    at: datetime
    direction: str
    partner: str
    event: str
    from_state: str = ""
    to_state: str = ""
    actor: str = "msh"
    detail: str = ""


def story_of(message_id: str) -> list[Moment]:
    """Everything that happened to the messages with this MessageId, sent and received, by time."""
    moments = [
        *_history(message_id),
        *_attempts(message_id),
        *_signals(message_id),
        *_deliveries(message_id),
        *_told(message_id),
    ]
    return sorted(moments, key=lambda moment: moment.at)


def folded(moments: Iterable[Moment]) -> list[Moment]:
    """The same, but a row of equal moments, such as 1,000 failed attempts, is one: the last, which
    says how many there were and since when."""
    lines: list[Moment] = []
    for _, group in groupby(moments, key=_likeness):
        alike = list(group)
        last = alike[-1]
        if len(alike) > 1:
            since = f"{alike[0].at:%Y-%m-%d %H:%M:%S}"
            times = f"{len(alike)} times since {since}"
            last = replace(last, detail="; ".join(filter(None, (times, last.detail))))
        lines.append(last)
    return lines


def waypoints() -> dict[str, int]:
    """How many messages have passed each stage (001-27): counted from what is kept."""
    rows = History.objects.filter(subject=History.Subject.MESSAGE)
    counted = rows.values("direction", "event").annotate(count=Count("pk"))
    return {
        f"{row['direction']} {row['event']}": row["count"]
        for row in counted.order_by("direction", "event")
    }


def _likeness(moment: Moment) -> tuple[str, ...]:
    event = "Attempt" if moment.event.startswith("Attempt ") else moment.event
    return moment.direction, moment.partner, event, moment.to_state, moment.detail


def _history(message_id: str) -> Iterator[Moment]:
    for row in History.objects.filter(message_id=message_id).select_related("partner"):
        states = (row.from_state, row.to_state)
        yield Moment(
            row.at, row.direction, row.partner.name, row.event, *states, row.actor, row.detail
        )


def _attempts(message_id: str) -> Iterator[Moment]:
    attempts = Attempt.objects.filter(message__message_id=message_id)
    for attempt in attempts.select_related("message__link__partner"):
        name = attempt.message.link.partner.name
        status = f"{attempt.status} " if attempt.status else ""
        yield Moment(
            at=attempt.ended_at or attempt.claimed_at,
            direction=Direction.OUT,
            partner=name,
            event=f"Attempt {attempt.number}",
            to_state=attempt.outcome or "under way",
            detail=f"{status}{attempt.detail}".strip(),
        )


def _signals(message_id: str) -> Iterator[Moment]:
    signals = Signal.objects.filter(ref_to_message_id=message_id, owed__gt=0)
    for signal in signals.select_related("link__partner"):
        yield Moment(
            at=signal.due,
            direction=Direction.IN,
            partner=signal.link.partner.name,
            event=f"{signal.kind}Owed",
            detail=f"{signal.owed} owed, {signal.tries} tries; {signal.last_detail}".rstrip("; "),
        )


def _deliveries(message_id: str) -> Iterator[Moment]:
    """The beginning of the latest attempt. How it ended is in the history."""
    deliveries = Delivery.objects.filter(message__message_id=message_id)
    for delivery in deliveries.select_related("consumer", "message__link__partner"):
        outside = f"; external id {delivery.external_id}" if delivery.external_id else ""
        yield Moment(
            at=delivery.started_at,
            direction=Direction.IN,
            partner=delivery.message.link.partner.name,
            event=f"Delivery {delivery.attempt}",
            to_state=delivery.state,
            detail=f"to {delivery.consumer.name}{outside}",
        )


def _told(message_id: str) -> Iterator[Moment]:
    events = PartyEvent.objects.filter(message__message_id=message_id)
    for event in events.select_related("message__link__partner"):
        told = event.delivered_at is not None
        tries = f"{event.tries} tries" if event.tries > 1 else ""
        yield Moment(
            at=event.delivered_at or event.at,
            direction=Direction.OUT,
            partner=event.message.link.partner.name,
            event="FromPartyTold" if told else "FromPartyWaits",
            to_state=event.kind,
            detail="; ".join(filter(None, (tries, event.detail))),
        )
