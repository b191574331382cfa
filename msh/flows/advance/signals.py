"""Signals from owed to carried: statements for the transaction that finds or records them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msh.models import hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult

from .actor import SYSTEM


@dataclass(frozen=True, slots=True)
class SignalResult:
    """How carrying one signal ended."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int
    result: AttemptResult


def signal_claim(key: int, content_type: str, body: bytes, until: datetime) -> hot.Statement:
    """It is being carried as these bytes; after `until` its worker is lost and it is due again."""
    return hot.CLAIM_SIGNAL, (until, content_type, body, key)


def signal_end(one: SignalResult, now: datetime) -> list[hot.Statement]:
    """Carried: one less is owed. Failed: again after a back-off. Refused: owed no more (D51)."""
    end = (one.result.status, one.result.detail, one.key)
    match one.result.outcome:
        case AttemptOutcome.CARRIED:
            return [(hot.SIGNAL_CARRIED, (*end, *_note(one, "Carried", now)))]
        case AttemptOutcome.REFUSED:
            note = (hot.COUNT_HISTORY, _note(one, "Refused", now))
            return [(hot.SIGNAL_REFUSED, end), note]
    return [(hot.SIGNAL_FAILED, end)]


def _note(one: SignalResult, what: str, now: datetime) -> tuple[Any, ...]:
    about = (now, SYSTEM, one.partner_id, "in", "message", one.ref_to_message_id)
    return (*about, f"{one.kind}{what}", "", "", one.result.detail)
