"""The whole life of a message, from every row that knows of it, and how far messages have come."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from django.db.models import Count, QuerySet

from msh.models import (
    Attempt,
    Delivery,
    Direction,
    History,
    InboundMessage,
    OutboundMessage,
    PartyEvent,
    Signal,
)


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
    """Everything that happened to the messages with this MessageId, sent and received, by time;
    and to one that was refused, of which there is no row but what it was answered."""
    history = History.objects.filter(message_id=message_id)
    signals = Signal.objects.with_ref(message_id)
    sent = OutboundMessage.objects.with_message_id(message_id)
    received = InboundMessage.objects.with_message_id(message_id)
    moments = [*_history(history), *_signals(signals)]
    for messages in (sent, received):
        for message in messages.select_related("link__partner"):
            moments += _life(message)
    return sorted(moments, key=lambda moment: moment.at)


def story_of_row(message: OutboundMessage | InboundMessage) -> list[Moment]:
    """Everything that happened to this message alone, by time."""
    partner = message.link.partner
    sent = isinstance(message, OutboundMessage)
    history = History.objects.filter(
        message_id=message.message_id,
        partner=partner,
        direction=Direction.OUT if sent else Direction.IN,
    )
    moments = [*_history(history), *_life(message)]
    if isinstance(message, InboundMessage):
        moments += _signals(Signal.objects.about(message))
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


def _life(message: OutboundMessage | InboundMessage) -> Iterator[Moment]:
    """What its own rows tell. The history is none of them: it may be older than the message."""
    if isinstance(message, OutboundMessage):
        yield from _attempts(message)
        yield from _told(message)
    else:
        yield from _deliveries(message)


def _history(rows: QuerySet[History]) -> Iterator[Moment]:
    for row in rows.select_related("partner"):
        states = (row.from_state, row.to_state)
        yield Moment(
            row.at, row.direction, row.partner.name, row.event, *states, row.actor, row.detail
        )


def _attempts(message: OutboundMessage) -> Iterator[Moment]:
    for attempt in Attempt.objects.filter(message=message):
        status = str(attempt.status or "")
        said = attempt.detail.startswith(status)  # as the status line of an HTTP answer does
        yield Moment(
            at=attempt.ended_at or attempt.claimed_at,
            direction=Direction.OUT,
            partner=message.link.partner.name,
            event=f"Attempt {attempt.number}",
            to_state=attempt.outcome or "under way",
            detail=attempt.detail if said else f"{status} {attempt.detail}".strip(),
        )


def _signals(signals: QuerySet[Signal]) -> Iterator[Moment]:
    for signal in signals.filter(owed__gt=0).select_related("link__partner"):
        yield Moment(
            at=signal.due,
            direction=Direction.IN,
            partner=signal.link.partner.name,
            event=f"{signal.kind}Owed",
            detail=f"{signal.owed} owed, {signal.tries} tries; {signal.last_detail}".rstrip("; "),
        )


def _deliveries(message: InboundMessage) -> Iterator[Moment]:
    """The beginning of the latest attempt. How it ended is in the history."""
    for delivery in Delivery.objects.filter(message=message).select_related("consumer"):
        outside = f"; external id {delivery.external_id}" if delivery.external_id else ""
        yield Moment(
            at=delivery.started_at,
            direction=Direction.IN,
            partner=message.link.partner.name,
            event=f"Delivery {delivery.attempt}",
            to_state=delivery.state,
            detail=f"to {delivery.consumer.name}{outside}",
        )


def _told(message: OutboundMessage) -> Iterator[Moment]:
    """What the From-Party's application was told."""
    for event in PartyEvent.objects.filter(message=message):
        told = event.delivered_at is not None
        tries = f"{event.tries} tries" if event.tries > 1 else ""
        yield Moment(
            at=event.delivered_at or event.at,
            direction=Direction.OUT,
            partner=message.link.partner.name,
            event="FromPartyTold" if told else "FromPartyWaits",
            to_state=event.kind,
            detail="; ".join(filter(None, (tries, event.detail))),
        )
