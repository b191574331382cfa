"""What sources.csv says of a message, and the same of a message that was read."""

import re
from dataclasses import dataclass

from msh.protocol.ebms.message import Message
from msh.protocol.ebms.vocabulary import Actor, Kind

_WORD = re.compile(r"[\w-]+")
_ACTORS = {
    "toPartyMSH": Actor.TO_PARTY_MSH,
    "no actor": Actor.TO_PARTY_MSH,
    "nextMSH": Actor.NEXT_MSH,
}


@dataclass(frozen=True, slots=True)
class Description:
    """`action` is empty where a template leaves it open."""

    kind: Kind
    action: str
    ack: Actor | None
    sync_reply: bool
    eliminates: bool
    time_to_live: bool
    ordered: bool
    signed: bool
    references: int
    codes: frozenset[str]


def describe(message: Message, action: str) -> Description:
    """`action` of the description to compare with, for one that leaves it open."""
    header = message.header
    asked = message.ack_requested
    return Description(
        header.kind,
        header.action if action else "",
        asked[0].actor if asked else None,
        message.sync_reply,
        header.eliminates_duplicates,
        header.time_to_live is not None,
        message.order is not None,
        message.signed,
        len(message.manifest),
        frozenset(error.code for error in message.errors),
    )


def described(what: str) -> Description | None:
    """What a row says, None if it describes no message."""
    text = re.sub(r" \(same bytes as .*?\)", "", what).partition(";")[0]
    _, colon, text = text.partition(": ")
    if not colon or text.startswith("44 ebMS"):
        return None
    words = text.split(", ")
    first, _, action = words[0].partition(" ")
    if first not in {"message", *map(str, Kind)}:
        return None
    kind = Kind.BUSINESS if first == "message" else Kind(first)
    ack = next((word[13:] for word in words if word.startswith("AckRequested ")), None)
    references = next((word for word in words if " Manifest reference" in word), "0")
    rendered = "ValueNotRecognized" if "with ErrorList" in words else ""
    codes = next((word[6:] for word in words if word.startswith("codes ")), rendered)
    return Description(
        kind,
        str(kind) if kind.is_signal else action if _WORD.fullmatch(action) else "",
        None if ack is None else _ACTORS[ack],
        "SyncReply" in words,
        "DuplicateElimination" in words,
        "TimeToLive" in words,
        "MessageOrder" in words,
        any(word.startswith("signed ") for word in words),
        int(references.split(" ")[0]),
        frozenset(codes.split()),
    )
