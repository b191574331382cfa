"""Messages outside the lane: submitted ones, and BestEffort from claim to end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msh.models import History, NewMessage, OutboundLink, OutboundMessage, hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import PartyEventKind
from msh.protocol.message import Payload
from partners.models import Partner

from .actor import SYSTEM, Actor
from .lanes import attempt_end
from .use import mark_in_use


def submitted(
    message: OutboundMessage, payloads: Sequence[Payload], parts: Sequence[bytes]
) -> bool:
    """Write a new message with its payloads in wire form: one statement, and so all or nothing.

    False, with nothing written, if its MessageId is known, or the partner's link is not in use.
    """
    message.size = sum(map(len, parts))
    partner_id = message.agreement.partner_id
    row = (
        *(message.agreement_id, message.message_id, message.semantics),
        *(message.conversation_id, message.service_interface, message.action),
        *(message.ref_to_message_id, message.content_digest),
        *(message.size, message.boundary, message.relays_id, partner_id),
    )
    columns = (
        list(range(1, len(parts) + 1)),
        [payload.content_type for payload in payloads],
        [payload.content_id for payload in payloads],
        [payload.label for payload in payloads],
        [payload.description for payload in payloads],
        list(parts),
    )
    who = (SYSTEM, partner_id, "out", "message")
    what = (message.message_id, "MessageSubmitted", "", "queued", "")
    (rows,) = hot.run((hot.SUBMIT_MESSAGE, (*row, *columns, *who, *what)))
    for written in rows:
        message.pk, message.link_id, message.submitted_at = written
    return bool(rows)


def submitted_together(new: Sequence[NewMessage], links: Mapping[int, int]) -> None:
    """Write new messages, in this order and in the caller's transaction. `links`: partner id to
    link id.

    Raises IntegrityError if a MessageId became known meanwhile: then the transaction is at its end.
    """
    OutboundMessage.objects.copy_in(new, links)


def use_outbound_link(partner: Partner) -> OutboundLink:
    """The link of the first message to this partner, made if need be."""
    mark_in_use(partner)
    link, _ = OutboundLink.objects.get_or_create(partner=partner)
    return link


def corrected(original: OutboundMessage, copy: OutboundMessage, actor: Actor) -> None:
    """The copy was submitted instead of the original: each says so."""
    OutboundMessage.objects.filter(pk=copy.pk).update(corrects=original)
    told = (
        (original, "CopySubmitted", f"{copy.message_id} was submitted instead"),
        (copy, "SubmittedInstead", f"instead of {original.message_id}"),
    )
    for message, event, detail in told:
        History.objects.create(
            actor=actor.name,
            partner_id=message.agreement.partner_id,
            direction="out",
            subject="message",
            message_id=message.message_id,
            event=event,
            from_state=message.state,
            to_state=message.state,
            detail=f"{detail}; {actor.reason}",
        )


@dataclass(frozen=True, slots=True)
class BestEffortResult:
    """How the one attempt of a BestEffort message ended; None: its worker was lost."""

    key: int
    message_id: str
    partner_id: int
    result: AttemptResult | None


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
