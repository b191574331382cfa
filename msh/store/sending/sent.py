"""What was sent of a message, as it is stored."""

from dataclasses import dataclass

from msh.store.engine import Statement, run
from msh.wire import stored_document


@dataclass(frozen=True, slots=True)
class _Head:
    head: bytes
    boundary: str


_FIND_HEAD = Statement(
    """
    SELECT message.head, message.boundary
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s
      AND message.agreement_id = %(agreement_id)s AND message.head IS NOT NULL
    """,
    _Head,
)


def find_envelope(partner_id: int, agreement_id: int, message_id: str) -> bytes | None:
    """The header document of a message that was sent under this agreement; None if there is none,
    or not any more."""
    about = {"partner_id": partner_id, "agreement_id": agreement_id, "message_id": message_id}
    (rows,) = run(_FIND_HEAD(**about))
    return stored_document(bytes(rows[0].head), rows[0].boundary) if rows else None
