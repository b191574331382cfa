"""A message of a partner, as a wire dialect has read it."""

from dataclasses import dataclass

from .errors import Refused, Unreadable
from .message import Header, Payload


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as parsed. `content_digest` (32 bytes) is the same for every rebuild of the
    same message, whatever its boundary, encoding or TimeStamp (D45).

    `damage`: why its payloads cannot be read. It has none then, and half a digest.
    """

    header: Header
    payloads: tuple[Payload, ...]
    content_digest: bytes
    header_document: bytes
    damage: Refused | Unreadable | None = None


def are_of_copies(digest: bytes, other: bytes) -> bool:
    """Whether two messages of one MessageId are copies. If one of them is damaged, its digest has
    the half of the header only, and that decides (D45, EB-112)."""
    compared = min(len(digest), len(other))
    return digest[:compared] == other[:compared]
