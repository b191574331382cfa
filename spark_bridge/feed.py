"""A feed, of received messages or of events, as planners and tasks ask for it: its end, stretches
of it, their pages."""

import logging
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import InputPartition

from msh_client import Server
from spark_bridge.client import ApiRefused, Client
from spark_bridge.options import EARLIEST, LATEST, ReadOptions
from spark_bridge.selection import END, Selection

logger = logging.getLogger(__name__)

MARK_EVERY = 1000
"""Messages between two marks: the most that a page holds."""
FEWEST_MARKS = 100_000
"""The most messages that the API allows between two."""


class DataLost(Exception):
    """Messages that were to be read are not there any more, or the feed is another one."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """A stretch of the feed: behind `after`, up to `until`."""

    after: int
    until: int
    removed: int
    """Up to here retention had removed messages when it was planned."""
    server: Server
    """With the token that is valid now: a stream lives longer than a token."""


@dataclass(frozen=True, slots=True)
class Marks:
    positions: tuple[int, ...]
    until: int
    """How far was looked: up to here everything is among the positions."""
    removed: int
    """What a reader may know to be removed: more is an error."""


class Feed:
    """A `with` block on the driver."""

    def __init__(self, options: ReadOptions, selection: Selection) -> None:
        self._options = options
        self._name = options.feed
        self._selection = selection
        self._client = Client(options.server)

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__()

    def start_and_end(self) -> tuple[int, int]:
        """Where reading begins, by the options, and the last position that there is. Raises
        DataLost."""
        start = self._options.start
        since = None if isinstance(start, int) or start == LATEST else start
        answer = ask(self._client, f"{self._name}/positions", since=since)
        last: int = answer["last"]
        if isinstance(start, int):
            return start, last
        if since is None:
            return last, last
        if self._options.fail_on_data_loss and _time_of(answer["removed"]) > _time(since):
            raise DataLost(
                f"startingTimestamp {since}: retention has removed messages of later, up to"
                f" {_time_of(answer['removed'])}.{_CURE}"
            )
        return answer["before"], last

    def last(self) -> int:
        last: int = ask(self._client, f"{self._name}/positions")["last"]
        return last

    def marks(
        self, after: int, until: int | None, *, given: bool, every: int, most: int | None = None
    ) -> Marks:
        """Of the messages behind `after`, up to `until` or of at most `most`. `given`: the feed has
        given `after` as a position. Raises DataLost."""
        strict = self._options.fail_on_data_loss
        positions: list[int] = []
        known = END
        removed = None if strict and after != EARLIEST else END
        seen = after if strict and given and after != EARLIEST else None
        at, up_to = max(after, self._selection.after), self._up_to(until)
        more = True
        if at > after and up_to is not None and at >= up_to:  # so the query's filters say
            return Marks((), at, END)
        while more:
            query = {"after": at, "up_to": up_to, "every": every, "most": most}
            answer = self._ask(f"{self._name}/marks", **query, removed=removed, seen=seen)
            if not strict and at == after and EARLIEST < after < answer["removed"]:
                _log_loss(after, answer["removed"])
            positions += answer["marks"]
            removed = known = answer["removed"] if strict else END
            at, more = answer["last"], answer["more"] and most is None
        return Marks(tuple(positions), at, known)

    def stretches(
        self, after: int, until: int, *, given: bool, at_most: int | None = None
    ) -> list[Stretch]:
        """`at_most` so many, of `MARK_EVERY` messages or more, but for the last; none without a
        message. Raises DataLost."""
        marks = self.marks(after, until, given=given, every=MARK_EVERY)
        step = 1 if at_most is None else -(-len(marks.positions) // at_most) or 1
        ends = [*marks.positions[step - 1 : -1 : step], *marks.positions[-1:]]
        starts = pairwise([max(after, self._selection.after), *ends])
        return [Stretch(*each, marks.removed, self._options.server) for each in starts]

    def _up_to(self, until: int | None) -> int | None:
        up_to = min(END if until is None else until, self._selection.up_to)
        return None if up_to == END else max(up_to, 0)

    def _ask(self, path: str, **query: object) -> Any:
        return ask(self._client, path, **query, **self._selection.query)


def pages(
    options: ReadOptions, selection: Selection, stretch: Stretch, *, payloads: bool
) -> Generator[list[dict[str, Any]]]:
    """The rows of a stretch; those of messages with the content of their `payloads`. Raises
    DataLost if retention has removed some since the planning, unless it may."""
    after, more = stretch.after, stretch.after < stretch.until
    with Client(stretch.server) as client:
        while more:
            page = ask(
                client,
                options.feed,
                after=after,
                up_to=stretch.until,
                limit=options.page_size,
                payloads="true" if payloads else None,
                removed=stretch.removed,
                **selection.query,
            )
            if page["results"]:
                yield page["results"]
            after, more = page["next"], page["more"]


def ask(client: Client, path: str, **query: object) -> Any:
    """Raises DataLost, ApiRefused or ApiUnavailable."""
    try:
        return client.get(path, **query)
    except ApiRefused as refused:
        if refused.status == HTTPStatus.GONE:
            raise DataLost(f"{refused}{_CURE}") from None
        if refused.status == HTTPStatus.CONFLICT:
            raise DataLost(
                f"{refused} Begin there, with a new checkpoint and option startingPosition; rows"
                " that come again have the same partner and message_id, or event_id."
            ) from None
        raise


_CURE = (
    " Set option failOnDataLoss=false to go on with what is left; lest it happens again, read more"
    " often, or keep messages longer (MSH_KEEP_MESSAGES)."
)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _time_of(position: int) -> datetime:
    """A position is the microsecond at which it was given, as a rule."""
    return datetime.fromtimestamp(position / 1_000_000, UTC)


def _log_loss(after: int, removed: int) -> None:
    logger.warning(
        "failOnDataLoss is false: messages behind position %d, up to position %d of %s, are missing"
        " but for what retention has left of them",
        after,
        removed,
        _time_of(removed).isoformat(timespec="seconds"),
    )
