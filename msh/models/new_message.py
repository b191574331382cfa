"""A message that is prepared and not kept yet."""

from collections.abc import Sequence
from typing import NamedTuple

from msh.protocol.message import Payload
from partners.models import Agreement


class NewMessage(NamedTuple):
    """Checked, its payloads named and composed: all that is kept of it at submit."""

    agreement: Agreement
    message_id: str
    semantics: str
    conversation_id: str
    service_interface: str
    action: str
    ref_to_message_id: str
    content_digest: bytes
    boundary: str
    payloads: Sequence[Payload]
    parts: Sequence[bytes]
    """The payloads in wire form."""

    @property
    def size(self) -> int:
        """Bytes of its payloads in wire form."""
        return sum(map(len, self.parts))
