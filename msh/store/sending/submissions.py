"""Messages that applications submit, and those that are forwarded: from prepared to queued."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msh.models import OutboundLink, OutboundMessage, OutboundState
from msh.protocol.message import Payload
from msh.store import history
from msh.store.clock import read_clock
from msh.store.engine import run
from msh.store.flights import flight_sql
from msh.store.history import Actor, HistoryRow
from partners.models import Agreement, Partner

from . import submission_sql
from .submission_sql import Inserted, Parents

_OF_MESSAGE = (
    *("agreement_id", "message_id", "semantics", "conversation_id", "service_interface", "action"),
    *("ref_to_message_id", "content_digest", "size", "boundary", "forwards_id"),
    *("from_role", "to_role", "service_type"),
)
_OF_PAYLOAD = ("content_type", "content_id", "label", "description")


@dataclass(frozen=True, slots=True)
class Heading:
    """What messages of an application may have in common: checked once."""

    agreement: Agreement
    agreement_id: int
    semantics: str
    service_interface: str
    action: str
    from_role: str
    to_role: str
    service_type: str
    given: tuple[str, ...]
    """The roles that are not the agreement's, each "name=value"."""
    flies: bool
    """Whether a message has a flight."""
    ordered: bool
    """Whether it waits for its turn in its conversation, if it has."""


class NewMessage(NamedTuple):
    """Checked, its payloads named and composed: all that is stored of it at submit."""

    heading: Heading
    message_id: str
    conversation_id: str
    ref_to_message_id: str
    content_digest: bytes
    boundary: str
    payloads: Sequence[Payload]
    parts: Sequence[bytes]
    """The payloads in wire form."""
    digests: Sequence[bytes]
    """SHA-256 of each payload."""


def insert_message(
    message: OutboundMessage,
    payloads: Sequence[Payload],
    parts: Sequence[bytes],
    digests: Sequence[bytes],
) -> Inserted | None:
    """Write a new message with its payloads in wire form, and the SHA-256 of each: one statement,
    and so all or nothing.

    None, with nothing written, if its MessageId is known, or the partner's link is not in use, or
    submissions to the partner are refused.
    """
    sizes = [len(payload.content) for payload in payloads]
    message.size = sum(sizes)
    values: dict[str, Any] = {name: getattr(message, name) for name in _OF_MESSAGE}
    values["partner_id"] = message.agreement.partner_id
    columns: dict[str, list[Any]] = {
        name: [getattr(payload, name) for payload in payloads] for name in _OF_PAYLOAD
    }
    columns |= {"wire": list(parts), "part_size": sizes, "sha256": list(digests)}
    if has_one := len(parts) == 1:
        values |= {name: column[0] for name, column in columns.items()}
    else:
        values |= {f"{name}s": column for name, column in columns.items()}
        values["positions"] = list(range(1, len(parts) + 1))
    insert = submission_sql.INSERT_WITH_ONE_PART if has_one else submission_sql.INSERT
    if message.flies:
        message.state = OutboundState.FLYING
        insert = flight_sql.INSERT_WITH_ONE_PART if has_one else flight_sql.INSERT
    (rows,) = run(insert(**values))
    for row in rows:
        message.pk, message.link_id, message.submitted_at = row.id, row.link_id, row.submitted_at
    return rows[0] if rows else None


def mark_in_use(partner: Partner) -> None:
    """Say that messages were exchanged with this partner: from then on the pair keeps its names
    (D16). One statement for the first message, none later."""
    if not partner.in_use:
        Partner.objects.filter(pk=partner.pk, in_use=False).update(in_use=True)


def use_outbound_link(partner: Partner) -> OutboundLink:
    mark_in_use(partner)
    link, _ = OutboundLink.objects.get_or_create(partner=partner)
    return link


def lock_parents(agreements: Mapping[int, Agreement]) -> dict[int, Parents]:
    """Lock, of these agreements, by id, the link, and whether submissions are accepted. Links that
    are missing are made; an agreement that is deleted meanwhile is left out."""
    (rows,) = run(submission_sql.LOCK_PARENTS(agreements=list(agreements)))
    if len(rows) < len(agreements):
        for missing in agreements.keys() - {row.agreement_id for row in rows}:
            use_outbound_link(agreements[missing].partner)
        (rows,) = run(submission_sql.LOCK_PARENTS(agreements=list(agreements)))
    return {row.agreement_id: row for row in rows}


def link_copy(original: OutboundMessage, copy: OutboundMessage, actor: Actor) -> None:
    """Say at both which message stands for which, who submitted it again, and why; and resolve the
    incidents that were about it alone, or about nothing that still stands."""
    OutboundMessage.objects.filter(pk=copy.pk).update(corrects=original)
    events = (
        (original, "CopySubmitted", f"{copy.message_id} was submitted instead"),
        (copy, "SubmittedInstead", f"instead of {original.message_id}"),
    )
    for message, event, detail in events:
        record_act(message, event, detail, actor)
    run(
        flight_sql.RESOLVE_OF_MESSAGE(
            partner_id=original.agreement.partner_id,
            message_id=original.message_id,
            at=read_clock(),
            actor=actor.name,
            resolution=actor.reason,
        )
    )


def record_act(message: OutboundMessage, event: str, detail: str, actor: Actor) -> None:
    """Record what an operator did, in the history of a message whose state stays."""
    history.record(
        HistoryRow(
            message.agreement.partner_id,
            "out",
            event,
            message.message_id,
            from_state=message.state,
            to_state=message.state,
            detail=f"{detail}; {actor.reason}",
            actor=actor.name,
        )
    )
