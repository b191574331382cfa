"""Messages outside the lane: submitted ones, and BestEffort from claim to end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msh.models import History, OutboundMessage, OutboundPayload, hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import PartyEventKind
from msh.protocol.message import Payload

from .lanes import SYSTEM, attempt_end
from .use import mark_in_use


def submitted(
    message: OutboundMessage, payloads: Sequence[Payload], parts: Sequence[bytes]
) -> None:
    """Write a new message with its payloads in wire form. Needs the caller's transaction."""
    mark_in_use(message.agreement.partner)
    message.size = sum(map(len, parts))
    message.save(force_insert=True)
    OutboundPayload.objects.bulk_create(
        OutboundPayload(
            message=message,
            position=position,
            content_type=payload.content_type,
            content_id=payload.content_id,
            label=payload.label,
            description=payload.description,
            wire=part,
        )
        for position, (payload, part) in enumerate(zip(payloads, parts, strict=True), start=1)
    )
    History.objects.create(
        partner_id=message.agreement.partner_id,
        direction="out",
        subject="message",
        message_id=message.message_id,
        event="MessageSubmitted",
        to_state="queued",
    )


@dataclass(frozen=True, slots=True)
class BestEffortResult:
    """How the one attempt of a BestEffort message ended; None: its worker was lost."""

    key: int
    message_id: str
    partner_id: int
    result: AttemptResult | None


def lock_best_effort(busy: Iterable[int], free: int, limit: int) -> list[int]:
    """Lock queued BestEffort messages, at most `free` of a partner and none of `busy` ones."""
    (rows,) = hot.run((hot.LOCK_BEST_EFFORT, (list(busy), free, limit)))
    return [row.id for row in rows]


def lost_best_effort(limit: int) -> list[BestEffortResult]:
    """Lock BestEffort messages whose lease is over: nobody knows what became of them."""
    (rows,) = hot.run((hot.LOCK_LOST_BEST_EFFORT, (limit,)))
    return [BestEffortResult(row.id, row.message_id, row.partner_id, None) for row in rows]


def end_best_effort(ended: Iterable[BestEffortResult]) -> None:
    """SENT or FAILED; the From-Party is told of the failure (D25)."""
    by_key = {one.key: one for one in ended}
    if not by_key:
        return
    rows, clock = hot.run(
        (hot.LOCK_BEST_EFFORT_IN_FLIGHT, (list(by_key),)),
        (hot.CLOCK, ()),
    )
    statements = [
        statement for row in rows for statement in end_of_best_effort(by_key[row.id], clock[0].now)
    ]
    if statements:
        hot.run(*statements)


def end_of_best_effort(one: BestEffortResult, now: datetime) -> list[hot.Statement]:
    """What is written when the one attempt of a BestEffort message has ended."""
    carried = one.result is not None and one.result.outcome is AttemptOutcome.CARRIED
    state = "sent" if carried else "failed"
    detail = one.result.detail if one.result else "the worker was lost, outcome unknown"
    note = (now, SYSTEM, one.partner_id, "out", "message", one.message_id)
    statements: list[hot.Statement] = [
        (hot.COMPLETE_MESSAGE, (state, now, one.key)),
        (hot.WRITE_HISTORY, (*note, "AttemptEnded", "in_flight", state, detail)),
    ]
    if one.result is not None:
        statements.append((hot.END_ATTEMPT, attempt_end(one.key, 1, one.result, now)))
    if not carried:
        kind = PartyEventKind.FAILED
        statements.append((hot.NOTIFY_FROM_PARTY, (one.key, kind, detail, now, now)))
    return statements
