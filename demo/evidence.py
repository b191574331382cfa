"""What the checker uses, from four sources: producers, application, proxy, databases."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import merge
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from .evidence_sql import ATTEMPTS, DELIVERIES, HELD, LANES, OPEN, SUSPENSIONS


@dataclass(frozen=True, slots=True)
class Submission:
    """A submit that returned to its producer; `order` counts within the pair."""

    pair: str
    message_id: str
    order: int
    sha256: str
    """Of the file's bytes, read again after the run."""
    conversation: str = ""
    """In whose order it is to be delivered; empty: in that of its pair."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that the receiving application was given."""

    pair: str
    message_id: str
    sha256: str
    at: float = field(default=0.0, compare=False)
    """Seconds, on the clock of all databases."""


@dataclass(frozen=True, slots=True)
class Transmitted:
    """A request as the proxy saw it. `at` and `copies` are positions in one order of events."""

    at: int
    pair: str
    kind: str
    message_id: str
    ref_to_message_id: str
    sha256: str
    fault: str = "pass"
    row_found: bool | None = None
    copies: tuple[int, ...] = ()
    unreachable: int = 0
    """Copies that the target gave no answer to."""


@dataclass(frozen=True, slots=True)
class Lane:
    """An outbound link when the run was over. `overdue` in seconds; None if nothing is due."""

    pair: str
    state: str
    open_messages: int
    """Queued, in flight or flying; not held."""
    overdue: float | None
    still: float
    """Seconds since anything happened on it: a message submitted, an attempt, a line of history."""
    open_incident: bool
    """Or an operator has suspended it, who needs none."""
    held: int = 0
    """Messages that wait for an operator who did not hold them."""


@dataclass(frozen=True, slots=True)
class Suspension:
    """A suspension, or a message held, in the history, and whether an incident was open
    at that moment."""

    pair: str
    incident: bool


@dataclass(frozen=True, slots=True)
class Open:
    """A message that an MSH knows it has still to send, or to deliver."""

    message_id: str
    where: str
    """The MSH and the state, as in "a: in_flight"."""


@dataclass(frozen=True, slots=True)
class Evidence:
    submissions: tuple[Submission, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    """In the order in which the application was called, for each pair."""
    transmitted: tuple[Transmitted, ...] = ()
    accepted: frozenset[str] = frozenset()
    """MessageIds that the receiving MSHs hold."""
    lanes: tuple[Lane, ...] = ()
    suspensions: tuple[Suspension, ...] = ()
    under_way: frozenset[Open] = frozenset()
    """What the MSHs had not finished before `deliveries` were read."""
    attempts: int = 0
    hops: int = 1
    """Between a message's submit and its delivery: one more than there are routers."""
    window: int = 1
    """Messages of a pair that may be under way at once."""
    ordered: bool = True
    held: frozenset[str] = frozenset()
    """MessageIds that were held for an operator at some time."""


def read_submissions(record: Path) -> Iterator[Submission]:
    """The record of a producer: one JSON line, `pair`, `message_id`, `order`, `file`."""
    for line in _lines(record):
        yield Submission(
            pair=line["pair"],
            message_id=line["message_id"],
            order=line["order"],
            sha256=sha256(Path(line["file"]).read_bytes()).hexdigest(),
            conversation=line.get("conversation", ""),
        )


def read_proxy_log(log: Path, pairs: dict[str, str]) -> Iterator[Transmitted]:
    """The proxy's log, in the order in which requests came: of each the last line.

    `pairs` maps the proxy's name of a hop to the checker's.
    """
    last = {line["at"]: line for line in _lines(log)}
    for _, line in sorted(last.items()):
        yield Transmitted(
            at=line["at"],
            pair=pairs.get(line["pair"], line["pair"]),
            kind=line["kind"],
            message_id=line["message_id"],
            ref_to_message_id=line["ref_to_message_id"],
            sha256=line["sha256"],
            fault=line["fault"],
            row_found=line["row_found"],
            copies=tuple(copy["at"] for copy in line["copies"]),
            unreachable=sum(line["ended"] and copy["status"] is None for copy in line["copies"]),
        )


def read_database(url: str) -> Evidence:
    """What the database of one MSH and its application's table say."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        accepted = _rows(connection, "SELECT message_id FROM msh_inboundmessage")
        held = _rows(connection, HELD)
        (attempts,) = _rows(connection, ATTEMPTS)
        return Evidence(
            deliveries=tuple(Delivery(**row) for row in _rows(connection, DELIVERIES)),
            accepted=frozenset(row["message_id"] for row in accepted),
            lanes=tuple(Lane(**row) for row in _rows(connection, LANES)),
            suspensions=tuple(Suspension(**row) for row in _rows(connection, SUSPENSIONS)),
            attempts=attempts["number"],
            held=frozenset(row["message_id"] for row in held),
        )


def read_open(name: str, url: str) -> Iterator[Open]:
    """What the MSH called `name` has not finished."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        for row in _rows(connection, OPEN):
            yield Open(row["message_id"], f"{name}: {row['state']}")


def gather(
    records: Iterable[Path],
    log: Path,
    pairs: dict[str, str],
    databases: Mapping[str, str],
    *,
    hops: int,
    window: int = 1,
    ordered: bool = True,
) -> Evidence:
    """All evidence of a run whose producers have ended. `databases`: MSH to address, in the
    order of the chain.

    The MSHs may still be at work. A message moves along the chain while one database after the
    other is read: read forth and back, it is seen either where it is open or where it arrived.
    """
    forth, back = list(databases.items()), list(databases.items())[::-1]
    under_way = frozenset(one for name, url in (*forth, *back) for one in read_open(name, url))
    read = [read_database(url) for _, url in forth]
    return Evidence(
        submissions=tuple(line for record in records for line in read_submissions(record)),
        deliveries=tuple(merge(*(one.deliveries for one in read), key=lambda one: one.at)),
        transmitted=tuple(read_proxy_log(log, pairs)),
        accepted=frozenset().union(*(one.accepted for one in read)),
        lanes=tuple(lane for one in read for lane in one.lanes),
        suspensions=tuple(suspension for one in read for suspension in one.suspensions),
        under_way=under_way,
        attempts=sum(one.attempts for one in read),
        hops=hops,
        window=window,
        ordered=ordered,
        held=frozenset().union(*(one.held for one in read)),
    )


def _rows(connection: psycopg.Connection[dict[str, Any]], query: str) -> list[dict[str, Any]]:
    return connection.execute(query.encode()).fetchall()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)
