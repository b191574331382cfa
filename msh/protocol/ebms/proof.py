"""What an agreement wants signed, and what becomes of a message or an Acknowledgment that is not
signed, or whose signature does not fit (EB-098, EB-099, EB-175, EB-177, EB-179)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from .agreement import Agreed
from .message import Acknowledgment, Defect, Error, ReceivedMessage
from .signature import SignedReference
from .vocabulary import Actor, ErrorCode, Stage

_HEADER = "/SOAP:Envelope/SOAP:Header"
SIGNATURE = f"{_HEADER}/ds:Signature"
"""The place that an error about a signature names."""
UNVERIFIED = "EB-177"
"""The row of a signature that does not fit its message."""
UNDECRYPTED = "EB-187"
"""The row of a message whose payloads cannot be decrypted, or do not fit its signature."""
UNPROVEN = (UNVERIFIED, UNDECRYPTED)


def has_to_be_verified(received: ReceivedMessage, agreed: Agreed) -> bool:
    """Whether there is a signature, and a certificate to verify it by."""
    return received.message.signed and bool(agreed.certificates)


def refused(received: ReceivedMessage, reason: str) -> ReceivedMessage:
    """The message with the reason why its signature is refused, a sentence that goes on after the
    name of the place."""
    defect = _failure(UNVERIFIED, SIGNATURE, reason)
    return replace(received, defects=(*received.defects, defect))


def unproven(received: ReceivedMessage, agreed: Agreed) -> Iterator[Defect]:
    """Yield what a message of a business lacks: the signature that the agreement wants, or a
    verified one (EB-175). The agreement may leave only that to the application which it gives us no
    certificate for."""
    if not received.message.signed:
        if agreed.signed:
            yield _failure("EB-175", SIGNATURE, "is missing: the agreement wants messages signed")
    elif not (received.signed_by_partner or any(one.rule in UNPROVEN for one in received.defects)):
        sentence = "is not verified here: the agreement has no certificate of the partner"
        defect = _failure("EB-175", SIGNATURE, sentence)
        waivable = not (agreed.signed or agreed.certificates)
        yield replace(defect, stage=Stage.SECURITY, waivable=waivable)


def unsignable(received: ReceivedMessage, agreed: Agreed) -> Iterator[Defect]:
    """Yield what wants a signed Acknowledgment that we do not give (EB-043, EB-099)."""
    asked = received.message.ack_requested
    place = f"{_HEADER}/eb:AckRequested"
    if not agreed.ack_signed and any(one.signed for one in asked):
        text = f"{place} asks for a signed Acknowledgment, but the agreement says never"
        error = Error(ErrorCode.INCONSISTENT, location=place, description=text)
        yield Defect("EB-043", Stage.HEADER, error, waivable=True)
    elif agreed.ack_signed and asked and not agreed.can_sign:
        yield _failure("EB-099", place, "wants a signed Acknowledgment, and we have no key")


def _failure(rule: str, place: str, sentence: str) -> Defect:
    error = Error(ErrorCode.SECURITY_FAILURE, location=place, description=f"{place} {sentence}")
    return Defect(rule, Stage.SIGNATURE, error)


def why_not_acknowledged(
    blocks: Collection[Acknowledgment],
    received: ReceivedMessage,
    agreed: Agreed,
    ours: Sequence[SignedReference],
) -> str:
    """Why the blocks about a message of ours do not acknowledge it, as the rest of a sentence;
    empty if one of them does. `ours`: the References of its signature (EB-179). A block for the
    next node is never signed: no signature covers it."""
    verified = bool(received.signed_by_partner)
    reasons = [
        _why_not(block, verified and block.actor is not Actor.NEXT_MSH, agreed, ours)
        for block in blocks
    ]
    return "" if "" in reasons else reasons[0]


def _why_not(
    block: Acknowledgment, signed: bool, agreed: Agreed, ours: Sequence[SignedReference]
) -> str:
    if agreed.ack_signed and not signed:
        return "is not signed, which the agreement wants"
    if not ours or not (signed or block.digests):
        return ""
    if not block.digests:
        return "has no digests of the message"
    if _values(block.digests) != _values(ours):
        return "has digests of another message"
    return ""


def _values(references: Sequence[SignedReference]) -> list[tuple[str, str]]:
    return sorted((one.uri, one.value) for one in references)
