"""The feeds, of accepted messages and of events: pages that never skip a row which commits later.

Ids are given before a commit, so a page of ids could. Places are given to what is committed, one
process at a time; of one pair they are in the order of acceptance, of one message in that of its
events.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet

from msh.flows.errors import NotPossible
from msh.models import InboundMessage, PartyEvent
from msh.models.message import CLOCK_STEP
from msh.protocol.reason import Refusal
from msh.store.delivery.feed import EVENTS, INBOUND, Feed, Source

RowT = TypeVar("RowT", bound=Model)

END = 2**63 - 1
"""No position is behind it."""
LIST_AT_ONCE = 2_000
"""Rows that one transaction gives their places, and locks meanwhile."""
LIST_FOR = 3.0
"""Seconds after which a reader is not kept waiting for the places of what was never read."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FeedRemoved(Exception):
    """Retention has removed what a reader has not read. `removed`: the highest position of that;
    `first_position`: the first one behind it that is left."""

    def __init__(self, after: int, removed: int, source: Source) -> None:
        super().__init__(
            f"What is behind position {after} was removed by retention, up to position {removed}."
            f" Go on with after={removed}, without what is lost; or with removed={removed}, to get"
            " what is left of it."
        )
        self.removed = removed
        self.first_position = first_position(removed, source)


class FeedRestored(NotPossible):
    """A position that this database has not given: what comes may have lower ones."""

    code = Refusal.FEED_RESTORED


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of the feed that is read: behind `after`, up to `up_to`. The reader knows that the
    feed has holes up to `removed`, and has read `seen`. What was received before `since` it does
    not need."""

    after: int | None = None
    up_to: int = END
    removed: int = 0
    seen: int = 0
    since: datetime | None = None


def messages(after: int, up_to: int = END) -> QuerySet[InboundMessage]:
    """The messages behind one position, up to another, in order."""
    return between(InboundMessage.objects.all(), after, up_to)


def events(after: int, up_to: int = END) -> QuerySet[PartyEvent]:
    """The same of events."""
    return between(PartyEvent.objects.all(), after, up_to)


def between(rows: QuerySet[RowT], after: int, up_to: int) -> QuerySet[RowT]:
    found = rows.filter(feed_position__gt=after, feed_position__lte=up_to)
    return found.order_by("feed_position")


def _behind(after: int, source: Source) -> QuerySet[Any]:
    return events(after) if source is EVENTS else messages(after)


def first_position(after: int, source: Source = INBOUND) -> int | None:
    positions = _behind(after, source).values_list("feed_position", flat=True)
    first: int | None = positions.first()
    return first


def list_new(most: int, up_to: int = END, source: Source = INBOUND) -> bool:
    """Give what is committed its places, at most to `most` rows. False if there may be more.

    Nothing is written for who reads up to a position that was given before.
    """
    if up_to < END and up_to <= source.last_given():
        return True
    until = time.monotonic() + LIST_FOR
    while most > 0 and time.monotonic() < until:
        limit = min(most, LIST_AT_ONCE)
        with transaction.atomic():
            listed = source.list(limit)
        if listed < limit:
            return True
        most -= listed
    return False


def look(asked: Stretch, looked_at: int | None = None, source: Source = INBOUND) -> Feed:
    """The feed of now, in the caller's snapshot. `looked_at`: at how many rows it will look.

    Raises FeedRemoved if something of the stretch was removed that the reader does not know of, and
    FeedRestored for a position that this database has not given: who waits behind it would miss
    what comes, whose positions are lower.
    """
    feed = source.read(
        after=asked.after,
        up_to=asked.up_to,
        seen=asked.seen,
        least=_given_since(asked.since),
        looked_at=looked_at,
    )
    ahead = max(asked.after or 0, 0 if feed.has_seen else asked.seen)
    if ahead > feed.possible or not feed.has_seen:
        raise FeedRestored(
            f"The feed is behind position {ahead}: since it was read, the database was restored, or"
            " its clock was set back. Compare what you have with the feed from an earlier position,"
            " and go on from the last one that both have."
        )
    if feed.removed > max(feed.after, asked.removed):
        raise FeedRemoved(feed.after, feed.removed, source)
    return feed


def before(since: datetime, source: Source = INBOUND) -> int | None:
    """Return the position behind which everything is that was received, or that happened, since
    then, and that is behind what was removed; None if there is nothing."""
    start = look(Stretch(since=since), source=source).after
    at = "at" if source is EVENTS else "received_at"
    found = _behind(start, source).filter(**{f"{at}__gte": since})
    first: int | None = found.values_list("feed_position", flat=True).first()
    return None if first is None else first - 1


def _given_since(at: datetime | None) -> int:
    """Return a position before all that can have been given to what was received, or happened,
    since then: none is given before that, but for steps of the clock."""
    return 0 if at is None else max(0, (at - CLOCK_STEP - _EPOCH) // timedelta(microseconds=1))
