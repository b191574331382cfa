"""Signals from owed to carried: statements for the transaction that finds or records them."""

from dataclasses import dataclass
from datetime import datetime

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
    last = (one.result.status, one.result.detail)
    update: hot.Statement
    match one.result.outcome:
        case AttemptOutcome.CARRIED:
            update = (hot.SIGNAL_CARRIED, (*last, one.key))
        case AttemptOutcome.REFUSED:
            update = (hot.SIGNAL_REFUSED, (*last, one.key))
        case _:
            return [(hot.SIGNAL_FAILED, (*last, one.key))]
    event = f"{one.kind}{'Carried' if one.result.outcome is AttemptOutcome.CARRIED else 'Refused'}"
    note = (now, SYSTEM, one.partner_id, "in", "message", one.ref_to_message_id, event, "", "")
    return [update, (hot.WRITE_HISTORY, (*note, one.result.detail))]
