"""What was sent of a message, as it is stored."""

from dataclasses import dataclass

from msh.store.channel_columns import CHANNEL_OF_MESSAGE, terms
from msh.store.engine import Statement, run
from msh.wire import stored_document


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent. `ack_signed`: its Acknowledgment is to be signed."""

    head: bytes
    boundary: str
    ack_signed: bool

    @property
    def envelope(self) -> bytes:
        """Its header document."""
        return stored_document(bytes(self.head), self.boundary)


_FIND = Statement(
    f"""
    SELECT message.head, message.boundary, {terms("ack_signed")}
    FROM msh_outboundmessage message
    JOIN msh_outboundlink link ON link.id = message.link_id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    {CHANNEL_OF_MESSAGE}
    WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s
      AND message.agreement_id = %(agreement_id)s AND message.head IS NOT NULL
    """,
    Sent,
)


def find_sent(partner_id: int, agreement_id: int, message_id: str) -> Sent | None:
    """A message that was sent under this agreement; None if there is none, or not any more."""
    about = {"partner_id": partner_id, "agreement_id": agreement_id, "message_id": message_id}
    (rows,) = run(_FIND(**about))
    return rows[0] if rows else None
