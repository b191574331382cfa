"""What all copies have in common, whatever the way they are sent: when they may leave, the bytes
that were stored, and the job that carries them."""

import hashlib
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from django.db import DatabaseError

from msh import wire
from msh.protocol.attempt import (
    AttemptOutcome,
    AttemptResult,
    asks_to_wait,
    is_unreachable,
)
from msh.protocol.events import AttemptFailed, AttemptRefused, AttemptTransmitted
from msh.protocol.uri import origin
from msh.store.sending.isolation import describe, one_line
from msh.transport.job import COPY_CRASH_POINTS, GRACE, CrashPoints, Job
from msh.transport.registry import transmits_lines_only
from msh.wire.dialect import Entity
from partners.models import Identity, Partner
from partners.secrecy import SecretUnreadableError

logger = logging.getLogger(__name__)

ANSWER_LIMIT = 1024 * 1024
"""Bytes of an answer that is read, if it is a signal (EB-157)."""


class StoredBytesDamagedError(Exception):
    """The stored bytes of a message are not those that were composed."""


UNSENDABLE = (StoredBytesDamagedError, SecretUnreadableError, ValueError)
"""What is known to keep one copy from being sent. Anything else is a defect of this MSH."""


class Sendable(Protocol):
    """The row of what is sent."""

    @property
    def partner_id(self) -> int: ...
    @property
    def partner(self) -> Partner: ...
    @property
    def identity(self) -> Identity: ...


Row = TypeVar("Row", bound=Sendable)


def lease(deadline: float) -> float:
    """Seconds from claim to the end of its POST: the socket write may come as late as the grace
    allows, and only then does the deadline run."""
    return min(GRACE, deadline) + deadline


def jobs_of(
    rows: Iterable[Row],
    make: Callable[[Row], Job],
    give_up: Callable[[Row, Exception], None],
) -> list[Job]:
    """What cannot be made is given up, and stops no other. Raises what says nothing about the row
    itself."""
    jobs = []
    for row in rows:
        try:
            jobs.append(make(row))
        except (DatabaseError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001  one message stops no other
            give_up(row, problem)
    return jobs


def why_unsendable(problem: Exception) -> str:
    if isinstance(problem, UNSENDABLE):
        return one_line(str(problem))
    logger.error("could not be composed", exc_info=problem)
    return describe(problem)


class To(NamedTuple):
    """To whom something goes that has no row."""

    partner_id: int
    partner: Partner
    identity: Identity


def job_of(
    row: Sendable,
    key: Hashable,
    entity: Entity,
    deadline: float,
    *,
    message_id: str = "",
    url: str = "",
    answer_limit: int = 0,
    crash_points: CrashPoints = COPY_CRASH_POINTS,
) -> Job:
    """`url`: instead of the destination of its partner, whose credential is shown only where the
    addresses of the partner lead. Raises SecretUnreadableError."""
    partner = row.partner
    url = url or partner.destination
    is_elsewhere = url != partner.destination and origin(url) not in partner.shown_to
    content_type, body, headers = entity
    if transmits_lines_only(url):  # a mail: always the same package for the same bytes
        body = wire.in_lines(content_type, body)
    return Job(
        key=key,
        partner_id=row.partner_id,
        url=url,
        content_type=content_type,
        body=body,
        authorization="" if is_elsewhere else partner.authorization(),
        deadline=deadline,
        not_after=time.monotonic() + min(GRACE, deadline),
        sender=partner.our_uri or row.identity.uri,
        crash_points=crash_points,
        headers=headers,
        answer_limit=answer_limit,
        message_id=message_id,
        access=partner.access(),
    )


class Message(Protocol):
    """The row of a message, as far as its bytes go."""

    @property
    def id(self) -> int: ...
    @property
    def message_id(self) -> str: ...
    @property
    def head(self) -> bytes | None: ...
    @property
    def body_sha256(self) -> bytes | None: ...
    @property
    def wires(self) -> Sequence[bytes] | None: ...
    @property
    def sealed(self) -> Sequence[bytes] | None: ...


class Composing(Protocol):
    """What writes the head of a message that is composed, and its parts if they are encrypted."""

    def store_head(
        self, key: int, head: bytes, body_sha256: bytes, sealed: Sequence[bytes] | None = None
    ) -> None: ...


def _unsealed() -> None:
    """The parts are sent as they were submitted."""


def body_of(
    work: Composing,
    row: Message,
    compose_head: Callable[[], bytes],
    *,
    seal: Callable[[], Sequence[bytes] | None] = _unsealed,
    anew: bool = False,
) -> bytes:
    """The bytes of a message: composed once and written with `work`, then as they were stored.
    `seal` gives its parts as they are encrypted, if they are: other ones each time. `anew`: nobody
    has seen the stored ones. Raises StoredBytesDamagedError."""
    if row.head is not None and not anew:
        return stored_body(row)
    head, sealed = compose_head(), seal()
    body = b"".join((head, *(sealed or row.wires or ())))
    work.store_head(row.id, head, hashlib.sha256(body).digest(), sealed)
    return body


def stored_body(row: Message) -> bytes:
    """Raises StoredBytesDamagedError."""
    body = b"".join((row.head or b"", *(row.sealed or row.wires or ())))
    if hashlib.sha256(body).digest() != row.body_sha256:
        raise StoredBytesDamagedError(f"the stored bytes of {row.message_id} have changed")
    return body


def event_of(
    message_id: str, attempt: int, result: AttemptResult
) -> AttemptTransmitted | AttemptFailed | AttemptRefused:
    """How an attempt ended, for a lane or a flight."""
    status = result.status
    match result.outcome:
        case AttemptOutcome.TRANSMITTED:
            return AttemptTransmitted(message_id, attempt)
        case AttemptOutcome.REFUSED:
            code = result.code or ("" if status is None else str(status))
            return AttemptRefused(message_id, attempt, result.detail, code, result.reason)
    return AttemptFailed(
        message_id,
        attempt,
        result.detail,
        result.retry_after,
        doubted=result.outcome is AttemptOutcome.DOUBTED,
        unreachable=is_unreachable(status, result.retry_after),
        asked_to_wait=asks_to_wait(status, result.retry_after),
        nothing_sent=not result.body_sent,
        reason=result.reason,
    )
