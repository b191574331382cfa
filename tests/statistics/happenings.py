"""Rows of the history as the MSH would have written them, of two partners and three agreements, and
what they count: by loops over the raw tables, with no statement of the product."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.db.models import F

from msh.models import (
    Attempt,
    History,
    InboundLink,
    InboundMessage,
    InboundPayload,
    OutboundLink,
    OutboundMessage,
)
from msh.statistics.models import Statistics, StatisticsProgress, Unit
from msh.statistics.store import collect as collecting
from partners.models import Agreement, Partner

NOON = datetime(2026, 5, 20, 12, 0, 0, tzinfo=UTC)
COUNTED = (
    *("submitted", "acknowledged", "sent", "received", "bytes_out", "bytes_in", "retries"),
    *("duplicates", "failed", "rejected", "delivery_failures", "in_doubt"),
)
Key = tuple[str, datetime, int | None, int | None]
"""Unit, beginning, partner, agreement; without the last two: the whole MSH."""


@dataclass
class Cast:
    """`about`: agreement id and bytes of each message, by direction and MessageId."""

    agreements: list[Agreement]
    number: Iterator[int] = field(default_factory=count)
    about: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of_two_partners(cls) -> "Cast":
        partners = [Partner.objects.create(name=f"p{n}", uri=f"http://p{n}.example/") for n in "ab"]
        for partner in partners:
            OutboundLink.objects.create(partner=partner)
            InboundLink.objects.create(partner=partner)
        return cls([_agreement(partners[n % 2], f"tpa-{n}") for n in range(3)])

    def message(self, agreement: Agreement, *, out: bool, size: int, at: datetime = NOON) -> str:
        """A new one; its MessageId."""
        message_id = f"m-{next(self.number)}"
        both: dict[str, Any] = {"agreement": agreement, "message_id": message_id}
        both |= {"semantics": "BestEffort", "conversation_id": "c", "content_digest": b"d" * 32}
        if out:
            link = OutboundLink.objects.get(partner=agreement.partner)
            OutboundMessage.objects.create(
                link=link, size=size, submitted_at=at, first_sent_at=at, **both
            )
        else:
            received = {"sent_at": at, "received_at": at, "header": b""}
            found = InboundMessage.objects.create(
                link=InboundLink.objects.get(partner=agreement.partner), **received, **both
            )
            for position, part in enumerate((size // 3, size - size // 3), start=1):
                InboundPayload.objects.create(message=found, position=position, content=b"x" * part)
        self.about["out" if out else "in", message_id] = (agreement.pk, size)
        return message_id

    def happened(self, agreement: Agreement, at: datetime, **values: Any) -> History:
        given = {"subject": "message", "partner": agreement.partner, "at": at}
        return History.objects.create(**given | values)

    def random_event(self, chance: Random, begin: datetime) -> None:
        agreement = chance.choice(self.agreements)
        at = begin + timedelta(seconds=chance.uniform(0, 4 * 86_400))
        direction, values = chance.choice(HAPPENINGS)
        waited = timedelta(seconds=10 ** chance.uniform(-2, 4))
        size = chance.randrange(10_000)
        message_id = self.message(agreement, out=direction == "out", size=size, at=at - waited)
        repeated = {"times": chance.randrange(1, 9)} if chance.random() < 0.2 else {}
        self.happened(
            agreement, at, direction=direction, message_id=message_id, **repeated | values
        )
        for number in range(1, chance.randrange(1, 4)):
            message = OutboundMessage.objects.filter(message_id=message_id).first()
            if message:
                Attempt.objects.create(message=message, number=number, claimed_at=at)


HAPPENINGS: list[tuple[str, dict[str, str]]] = [
    ("out", {"event": "MessageSubmitted", "to_state": "queued"}),
    ("out", {"event": "PutInFlight", "from_state": "queued", "to_state": "in_flight"}),
    ("out", {"event": "AckReceived", "from_state": "in_flight", "to_state": "acknowledged"}),
    ("out", {"event": "AttemptEnded", "from_state": "in_flight", "to_state": "sent"}),
    ("out", {"event": "DeadlinePassed", "from_state": "in_flight", "to_state": "failed"}),
    ("out", {"event": "MessageCancelled", "from_state": "queued", "to_state": "cancelled"}),
    ("out", {"event": "AckReceived", "from_state": "cancelled"}),
    ("in", {"event": "MessageArrived", "to_state": "accepted"}),
    ("in", {"event": "MessageArrived", "to_state": "held"}),
    ("in", {"event": "DuplicateArrived"}),
    ("in", {"event": "SequenceGap"}),
    ("in", {"event": "MessageRejected", "from_state": "processing", "to_state": "rejected"}),
    ("in", {"event": "AttemptFailed", "from_state": "accepted", "to_state": "failed"}),
    ("in", {"event": "AttemptFailed", "from_state": "processing", "to_state": "blocked"}),
    ("in", {"event": "OutcomeLost", "from_state": "processing", "to_state": "in_doubt"}),
    ("in", {"event": "ParkRequested", "from_state": "in_doubt", "to_state": "in_doubt"}),
    (
        "in",
        {
            "event": "ParkRequested",
            "from_state": "blocked",
            "to_state": "parked",
            "actor": "olga",
        },
    ),
]
_COUNTS_AS = {
    ("MessageSubmitted", "queued"): "submitted",
    ("AckReceived", "acknowledged"): "acknowledged",
    ("AttemptEnded", "sent"): "sent",
    ("DeadlinePassed", "failed"): "failed",
    ("MessageCancelled", "cancelled"): "failed",
    ("MessageArrived", "accepted"): "received",
    ("MessageArrived", "held"): "received",
    ("DuplicateArrived", ""): "duplicates",
    ("MessageRejected", "rejected"): "rejected",
    ("AttemptFailed", "failed"): "delivery_failures",
    ("AttemptFailed", "blocked"): "delivery_failures",
    ("OutcomeLost", "in_doubt"): "in_doubt",
}


def expected(cast: Cast) -> dict[Key, Counter[str]]:
    """From every row that there is."""
    found: dict[Key, Counter[str]] = {}
    for row in History.objects.filter(subject="message"):
        name = _COUNTS_AS.get((row.event, row.to_state))
        if name is None:
            continue
        agreement, size = cast.about[row.direction, row.message_id]
        for key in _keys(row.at, row.partner_id, agreement):
            counts = found.setdefault(key, Counter())
            counts[name] += row.times if name == "duplicates" else 1
            if name in ("acknowledged", "sent"):
                counts["bytes_out"] += size
            if name == "received":
                counts["bytes_in"] += size
    for one in Attempt.objects.filter(number__gt=1).select_related("message__link"):
        for key in _keys(one.claimed_at, one.message.link.partner_id, one.message.agreement_id):
            found.setdefault(key, Counter())["retries"] += 1
    return found


def _keys(at: datetime, partner_id: int, agreement_id: int) -> Iterator[Key]:
    local = at.astimezone(ZoneInfo(settings.TIME_ZONE))
    hour = local.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    monday = day - timedelta(days=day.weekday())
    for unit, begins in (("hour", hour), ("day", day), ("week", monday)):
        yield (unit, begins.astimezone(UTC), partner_id, agreement_id)
        yield (unit, begins.astimezone(UTC), None, None)
    minute = at.replace(second=0, microsecond=0)
    yield ("minute", minute, partner_id, agreement_id)
    yield ("minute", minute, None, None)


def counted() -> dict[Key, Counter[str]]:
    """What the product has counted, but for consumers."""
    found = {
        (row.unit, row.begins, row.partner_id, row.agreement_id): Counter(
            {name: getattr(row, name) for name in COUNTED if getattr(row, name)}
        )
        for row in Statistics.objects.filter(consumer=None)
    }
    return {key: counts for key, counts in found.items() if counts}


def times(unit: Unit = Unit.DAY) -> dict[tuple[int | None, int], int]:
    """Acknowledgement times by agreement and bucket; None: of the whole MSH."""
    found: Counter[tuple[int | None, int]] = Counter()
    for slot in Statistics.objects.filter(unit=unit):
        for one in slot.times.all():
            found[slot.agreement_id, one.bucket] += one.number
    return dict(found)


def collect_all() -> None:
    """All that there is now."""
    take_boundary()
    settle()
    while collecting.collect():
        pass


def take_boundary() -> None:
    """After all that there is now."""
    StatisticsProgress.objects.update(next_at=None, fence=None)
    collecting.collect()


def settle() -> None:
    """As if the time had passed, and all transactions that were open had ended: those of other
    tests, too."""
    StatisticsProgress.objects.update(next_at=F("next_at") - collecting.SETTLED, fence=0)


def _agreement(partner: Partner, tpa_id: str) -> Agreement:
    return Agreement.objects.create(
        partner=partner, tpa_id=tpa_id, our_party="111", their_party="222"
    )


@pytest.fixture
def cast() -> Cast:
    return Cast.of_two_partners()
