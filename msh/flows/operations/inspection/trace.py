"""The trace of a message, from all rows about it, and counts of events."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from django.db.models import Max, Min, QuerySet, Sum
from django.db.models.functions import Coalesce

from msh.extension import ExtensionPoint
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
from msh.models.history import NEWEST_FIRST, OLDEST_FIRST
from msh.protocol.kinds import DeliveryState
from msh.protocol.vocabulary import utc_text

found_by_value: ExtensionPoint[Callable[[str], Sequence[Mapping[str, Any]]]] = ExtensionPoint()
"""By what else than its id a message is found: rows with its `message_id`, the newest first."""
FIRST, LAST = 20, 180
"""Rows of the history that are shown one by one: a partner can make a million of one message."""
ATTEMPTS = 200
"""Attempts of a message that are shown, the last ones: retries may go on for weeks."""
IN_PROGRESS = "in progress"
"""The text in place of an outcome for an attempt that has not ended."""
NOT_RECORDED = "not recorded"
"""The same, if it is over: another attempt was begun after it, or the message is complete."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened. `event` is the name of its event or row; `to_state` is the state
    after it. If it happened several `times`, it did so first at `since` and last at `at`. `code`:
    as of the history. `number`: of an attempt. `answered`: somebody answered it."""

    at: datetime
    direction: str
    partner: str
    event: str
    from_state: str = ""
    to_state: str = ""
    actor: str = "msh"
    code: str = ""
    detail: str = ""
    times: int = 1
    since: datetime | None = None
    number: int | None = None
    answered: bool = False

    def document(self) -> dict[str, object]:
        """As the API and the command show it: the event names the number."""
        return {key: v for key, v in asdict(self).items() if key not in ("number", "answered")}


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is where the next page goes on; None if there is none."""

    moments: list[Moment]
    next: int | None


def trace_of(message_id: str) -> list[Moment]:
    """Return the events of the messages with this MessageId, sent and received, by time; also of a
    refused one, of which only the answer is stored. A long history is cut to its first and last
    rows, with the number of each kind between them."""
    history = History.objects.of_message(message_id)
    return _by_time([*_shortened(history), *_beside_history(message_id)])


def page_of_trace(
    message_id: str,
    *,
    partner: str = "",
    partner_ids: Collection[int] | None = None,
    after: int = 0,
    limit: int,
) -> Page:
    """All of it, `limit` rows of the history at a time, in the order in which they were written.
    Attempts, deliveries and pending signals are no rows that stay: they come with the last page, as
    they are now. `partner_ids`: only what is of these partners."""
    rows = History.objects.of_message(message_id).filter(pk__gt=after).order_by(*OLDEST_FIRST)
    if partner:
        rows = rows.filter(partner__name=partner)
    if partner_ids is not None:
        rows = rows.filter(partner__in=partner_ids)
    found = list(rows.select_related("partner")[: limit + 1])
    if len(found) > limit:
        return Page([_moment(row) for row in found[:limit]], found[limit - 1].pk)
    beside = [
        one for one in _beside_history(message_id, partner_ids) if partner in ("", one.partner)
    ]
    return Page(_by_time([*map(_moment, found), *beside]), None)


def page_of_link(
    partner_id: int, *, direction: str = "", code: str = "", after: int = 0, limit: int
) -> Page:
    """Return the events of the links with a partner, in the order in which they were written, as
    the console's pages show them. `direction`: "in", "out", or both if empty. `code`: only events
    with this one."""
    rows = History.objects.filter(partner=partner_id, subject=History.Subject.LINK, pk__gt=after)
    if direction:
        rows = rows.filter(direction=direction)
    if code:
        rows = rows.filter(code=code)
    found = list(rows.select_related("partner").order_by("pk")[: limit + 1])
    more = len(found) > limit
    return Page([_moment(row) for row in found[:limit]], found[limit - 1].pk if more else None)


def whole_trace_of(message_id: str) -> Iterator[Moment]:
    return _all_of(partial(page_of_trace, message_id))


def whole_history_of_link(partner_id: int) -> Iterator[Moment]:
    return _all_of(partial(page_of_link, partner_id))


def _all_of(page_of: Callable[..., Page]) -> Iterator[Moment]:
    after: int | None = 0
    while after is not None:
        page = page_of(after=after, limit=1000)
        yield from page.moments
        after = page.next


def _beside_history(
    message_id: str, partner_ids: Collection[int] | None = None
) -> Iterator[Moment]:
    wanted = {} if partner_ids is None else {"link__partner__in": partner_ids}
    yield from _signals(Signal.objects.with_ref(message_id).filter(**wanted))
    sent = OutboundMessage.objects.with_message_id(message_id)
    received = InboundMessage.objects.with_message_id(message_id)
    for messages in (sent, received):
        for message in messages.filter(**wanted).select_related("link__partner"):
            yield from _life(message)


def _by_time(moments: Iterable[Moment]) -> list[Moment]:
    return sorted(moments, key=lambda moment: moment.at)


def trace_of_row(message: OutboundMessage | InboundMessage) -> list[Moment]:
    partner = message.link.partner
    sent = isinstance(message, OutboundMessage)
    history = History.objects.of_message(message.message_id).filter(
        partner=partner, direction=Direction.OUT if sent else Direction.IN
    )
    moments = [*_shortened(history), *_life(message)]
    if isinstance(message, InboundMessage):
        moments += _signals(Signal.objects.about(message))
    return _by_time(moments)


def folded(moments: Iterable[Moment]) -> list[Moment]:
    """The same, but a row of equal moments, such as 1,000 failed attempts, is one: the last, which
    says how many there were and since when."""
    lines: list[Moment] = []
    for _, group in groupby(moments, key=_likeness):
        alike = list(group)
        first, last = alike[0], alike[-1]
        times, since = sum(one.times for one in alike), first.since or first.at
        if times > 1:
            repeated = f"{times} times since {utc_text(since)}"
            detail = "; ".join(filter(None, (repeated, last.detail)))
            last = replace(last, detail=detail, times=times, since=since)
        lines.append(last)
    return lines


def message_counts(*, partner: str = "") -> dict[str, int]:
    """How often each event happened to messages (001-27), as far back as the history goes."""
    rows = History.objects.filter(subject=History.Subject.MESSAGE)
    if partner:
        rows = rows.filter(partner__name=partner)
    counted = rows.values("direction", "event").annotate(count=Sum("times"))
    return {
        f"{row['direction']} {row['event']}": row["count"]
        for row in counted.order_by("direction", "event")
    }


def _likeness(moment: Moment) -> tuple[str, ...]:
    is_copy = moment.number is not None and moment.event.startswith("Attempt ")
    event = "Attempt" if is_copy else moment.event
    return moment.direction, moment.partner, event, moment.to_state, moment.code, moment.detail


def _life(message: OutboundMessage | InboundMessage) -> Iterator[Moment]:
    if isinstance(message, OutboundMessage):
        yield from _attempts(message)
        yield from _notifications(message)
    else:
        yield from _deliveries(message)


def _shortened(rows: QuerySet[History]) -> Iterator[Moment]:
    first = list(rows.select_related("partner").order_by(*OLDEST_FIRST)[:FIRST])
    yield from map(_moment, first)
    if len(first) == FIRST:
        others = rows.filter(pk__gt=first[-1].pk)
        last = list(others.select_related("partner").order_by(*NEWEST_FIRST)[:LAST])
        if len(last) == LAST:
            yield from _counted(others.filter(pk__lt=last[-1].pk))
        yield from map(_moment, last)


def _counted(rows: QuerySet[History]) -> Iterator[Moment]:
    kinds = rows.order_by().values("direction", "partner__name", "event", "actor")
    last = Max(Coalesce("last_at", "at"))
    for kind in kinds.annotate(count=Sum("times"), first=Min("at"), last=last):
        times, since = kind["count"], kind["first"]
        about = (kind["direction"], kind["partner__name"], kind["event"])
        yield Moment(kind["last"], *about, actor=kind["actor"], times=times, since=since)


def _moment(row: History) -> Moment:
    return Moment(
        at=row.last_at or row.at,
        direction=row.direction,
        partner=row.partner.name,
        event=row.event,
        from_state=row.from_state,
        to_state=row.to_state,
        actor=row.actor,
        code=row.code,
        detail=row.detail,
        times=row.times,
        since=row.at if row.times > 1 else None,
    )


def _attempts(message: OutboundMessage) -> Iterator[Moment]:
    is_over = message.completed_at is not None
    for attempt in Attempt.objects.filter(message=message).order_by("-number")[:ATTEMPTS]:
        status = str(attempt.status or "")
        said = attempt.detail.startswith(status)  # as the status line of an HTTP answer does
        yield Moment(
            at=_moment_of(attempt, message.completed_at),
            direction=Direction.OUT,
            partner=message.link.partner.name,
            event=f"Attempt {attempt.number}",
            to_state=attempt.outcome or (NOT_RECORDED if is_over else IN_PROGRESS),
            detail=attempt.detail if said else f"{status} {attempt.detail}".strip(),
            number=attempt.number,
            answered=attempt.status is not None,
        )
        is_over = True


def _moment_of(attempt: Attempt, completed_at: datetime | None) -> datetime:
    """Its end; its beginning if its message was complete before the end was recorded, which is
    written with the worker's next round: an Acknowledgement does not come before its copy."""
    if attempt.ended_at is None or (completed_at and attempt.ended_at > completed_at):
        return attempt.claimed_at
    return attempt.ended_at


def _signals(signals: QuerySet[Signal]) -> Iterator[Moment]:
    for signal in signals.filter(pending__gt=0).select_related("link__partner"):
        yield Moment(
            at=signal.due,
            direction=Direction.IN,
            partner=signal.link.partner.name,
            event=f"{signal.kind}Pending",
            detail=f"{signal.pending} pending, {signal.tries} tries; {signal.last_detail}".rstrip(
                "; "
            ),
        )


def _deliveries(message: InboundMessage) -> Iterator[Moment]:
    for delivery in Delivery.objects.filter(message=message).select_related("consumer"):
        outside = f"; external id {delivery.external_id}" if delivery.external_id else ""
        yield Moment(
            at=delivery.started_at,
            direction=Direction.IN,
            partner=message.link.partner.name,
            event=f"Delivery {delivery.attempt}",
            to_state=DeliveryState.PROCESSING if delivery.attempt else delivery.state,
            detail=f"to {delivery.consumer.name}{outside}",
            number=delivery.attempt,
        )


def _notifications(message: OutboundMessage) -> Iterator[Moment]:
    for event in PartyEvent.objects.filter(message=message):
        sent = event.delivered_at is not None
        tries = f"{event.tries} tries" if event.tries > 1 else ""
        yield Moment(
            at=event.delivered_at or event.at,
            direction=Direction.OUT,
            partner=message.link.partner.name,
            event="FromPartyNotified" if sent else "FromPartyPending",
            to_state=event.kind,
            detail="; ".join(filter(None, (tries, event.detail))),
        )
