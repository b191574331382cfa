"""Signals from owed to carried."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msh.models import hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult


@dataclass(frozen=True, slots=True)
class SignalResult:
    """How carrying one signal ended."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int
    result: AttemptResult


def lock_owed_signals(busy: Iterable[int], free: int, limit: int) -> list[int]:
    """Lock owed signals that are due, at most `free` of a partner and none of `busy` ones."""
    (rows,) = hot.run((hot.LOCK_OWED_SIGNALS, (list(busy), free, limit)))
    return [row.id for row in rows]


@dataclass(frozen=True, slots=True)
class SignalClaim:
    """A signal that is about to be carried, with the bytes it is carried as until it is."""

    key: int
    content_type: str
    body: bytes


def claim(claims: Sequence[SignalClaim], until: datetime) -> None:
    """These are being carried; after `until` their worker is lost and they are due again."""
    if claims:
        hot.run(
            *((hot.CLAIM_SIGNAL, (until, one.content_type, one.body, one.key)) for one in claims)
        )


def end_signals(ended: Iterable[SignalResult]) -> None:
    """Carried: one less is owed. Failed: again after a back-off. Refused: owed no more (D51)."""
    results = sorted(ended, key=lambda one: one.key)
    if not results:
        return
    (clock,) = hot.run((hot.CLOCK, ()))
    now = clock[0].now
    hot.run(*(statement for one in results for statement in _ended(one, now)))


def _ended(one: SignalResult, now: datetime) -> list[hot.Statement]:
    last = (one.result.status, one.result.detail)
    update: hot.Statement
    match one.result.outcome:
        case AttemptOutcome.CARRIED:
            update = (hot.SIGNAL_CARRIED, (now, *last, one.key))
        case AttemptOutcome.REFUSED:
            update = (hot.SIGNAL_REFUSED, (*last, one.key))
        case _:
            return [(hot.SIGNAL_FAILED, (now, now, now, *last, one.key))]
    event = f"{one.kind}{'Carried' if one.result.outcome is AttemptOutcome.CARRIED else 'Refused'}"
    note = (now, "msh", one.partner_id, "in", "message", one.ref_to_message_id, event, "", "")
    return [update, (hot.WRITE_HISTORY, (*note, one.result.detail))]
