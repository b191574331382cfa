"""The other blocks of an envelope, each to its value."""

import re
import sys
from collections.abc import Iterable, Iterator

from lxml import etree

from msh.protocol.ebms.message import (
    LAST_SEQUENCE_NUMBER,
    Acknowledgment,
    AckRequested,
    Error,
    MessageOrder,
    Reference,
    StatusResponse,
)
from msh.protocol.ebms.signature import SignedReference
from msh.protocol.ebms.vocabulary import (
    ERROR_CONTEXT,
    Actor,
    ErrorCode,
    MessageStatus,
    OrderStatus,
    Severity,
    Stage,
)
from msh.protocol.message import MESSAGE_ID_LIMIT
from msh.wire.mime import PART_LIMIT
from msh.wire.text import prose, shown, trimmed
from msh.wire.values import Problem, checked, content_id_of, prose_of

from .elements import Block
from .header import read_party_ids
from .names import XLINK, ds, soap

_MSHS = {"": Actor.TO_PARTY_MSH} | {
    str(actor): actor for actor in (Actor.TO_PARTY_MSH, Actor.NEXT_MSH)
}
_STATUSES = {str(each): each for each in OrderStatus} | {"": OrderStatus.CONTINUE}
_MESSAGE_STATUSES = {str(each): each for each in MessageStatus}
_SEVERITIES = {str(each): each for each in Severity}
_SEQUENCE_NUMBER = re.compile("[0-9]{1,8}")
_NO_LIMIT = sys.maxsize
"""No limit: a text that is only compared, or an address that is never fetched, may be as long as
the envelope."""


def _actor(block: Block) -> Actor | None:
    """One of the MSHs, absent for the one of the To-Party (EB-044)."""
    text = trimmed(block.element.get(soap("actor"), ""))
    if text not in _MSHS:
        sentence = f"is {shown(text)}: it must be toPartyMSH or nextMSH"
        block.wrong("EB-044", ErrorCode.INCONSISTENT, "@SOAP:actor", sentence)
    return _MSHS.get(text)


def read_ack_requested(blocks: Iterable[Block]) -> tuple[AckRequested, ...]:
    asked: dict[Actor, AckRequested] = {}
    for block in blocks:
        block.check_frame()
        actor, signed = _actor(block), block.boolean("signed", "EB-043")
        if actor in asked:
            _report_twice(block)
        elif actor is not None:
            asked[actor] = AckRequested(signed, actor)
    return tuple(asked.values())


def _report_twice(block: Block) -> None:
    block.wrong("EB-024", ErrorCode.INCONSISTENT, "", "stands there twice for one actor")


def read_sync_reply(block: Block) -> bool:
    block.check_frame()
    text = trimmed(block.element.get(soap("actor"), ""))
    if text != Actor.NEXT:
        sentence = f"is {shown(text)}: it must be {Actor.NEXT}"
        block.wrong("EB-068", ErrorCode.INCONSISTENT, "@SOAP:actor", sentence)
    return True


def read_order(block: Block) -> MessageOrder | None:
    """Return the MessageOrder; None if it cannot be read."""
    block.check_frame()
    inner = block.block("SequenceNumber", "EB-121")
    if inner is None:
        return None
    text, status = inner.own_text("EB-121"), inner.attribute("status", "EB-121")
    if status not in _STATUSES:
        sentence = f"is {shown(status)}: it must be Reset or Continue"
        inner.wrong("EB-121", ErrorCode.VALUE_NOT_RECOGNIZED, "@eb:status", sentence)
    if text and not _SEQUENCE_NUMBER.fullmatch(text):
        sentence = f"is {shown(text)}: it must be 0 to {LAST_SEQUENCE_NUMBER}"
        inner.wrong("EB-121", ErrorCode.VALUE_NOT_RECOGNIZED, "", sentence)
        return None
    return MessageOrder(int(text), _STATUSES[status]) if text and status in _STATUSES else None


def read_acknowledgments(blocks: Iterable[Block]) -> tuple[Acknowledgment, ...]:
    """All of them, two for one actor too: each is about a message of its own (EB-088)."""
    found: list[Acknowledgment] = []
    for block in blocks:
        block.check_frame()
        actor = _actor(block)
        if any(one.actor is actor for one in found):
            _report_twice(block)
        if actor is not None:
            found.append(_acknowledgment(block, actor))
    return tuple(found)


def _acknowledgment(block: Block, actor: Actor) -> Acknowledgment:
    sender = next(block.blocks("From"), None)
    return Acknowledgment(
        block.text("RefToMessageId", "EB-086", limit=MESSAGE_ID_LIMIT),
        block.instant("Timestamp", "EB-095", needed=True),
        actor,
        () if sender is None else read_party_ids(sender),
        tuple(_digest(each) for each in block.element.iterchildren(ds("Reference"))),
    )


def _digest(element: etree._Element) -> SignedReference:
    """Its transforms are not read: the digest is only compared with one of ours (EB-179)."""
    method = element.find(ds("DigestMethod"))
    value = element.find(ds("DigestValue"))
    return SignedReference(
        element.get("URI", ""),
        "" if method is None else method.get("Algorithm", ""),
        "" if value is None else "".join(prose_of(value).split()),
    )


def read_errors(block: Block) -> tuple[Error, ...]:
    """Return the readable Errors; an Error without code or severity is only noted (EB-061)."""
    block.check_frame()
    errors = tuple(filter(None, map(_error, block.blocks("Error"))))
    if not errors:
        block.wrong("EB-061", ErrorCode.INCONSISTENT, "eb:Error", "is missing or unreadable")
    return errors


def _error(block: Block) -> Error | None:
    code = block.said("errorCode")
    if not code:
        block.wrong("EB-061", ErrorCode.VALUE_NOT_RECOGNIZED, "@eb:errorCode", "is missing")
    severity = _SEVERITIES.get(block.attribute("severity", "EB-061"))
    if severity is None:
        sentence = "must be Warning or Error"
        block.wrong("EB-061", ErrorCode.VALUE_NOT_RECOGNIZED, "@eb:severity", sentence)
    if not code or severity is None:
        return None
    return Error(
        code,
        severity,
        block.said("location"),
        block.description(),
        block.said("codeContext") or ERROR_CONTEXT,
    )


def read_manifest(block: Block) -> Iterator[Reference]:
    """The References in order, as many as a package has parts."""
    block.check_frame()
    references = list(block.blocks("Reference"))
    if not 1 <= len(references) <= PART_LIMIT:
        sentence = f"has {len(references)} References: 1 to {PART_LIMIT}"
        _report_manifest(block, "EB-052", ErrorCode.INCONSISTENT, sentence)
    for reference in references[:PART_LIMIT]:
        href = trimmed(reference.element.get(f"{{{XLINK}}}href", ""))
        if href[:4].lower() != "cid:":
            href, content_id = prose(href), ""
        else:
            try:
                href, content_id = _cid_reference(reference, checked(href, _NO_LIMIT))
            except Problem as problem:
                _report_manifest(reference, "EB-047", problem.code, problem.sentence)
                continue
        if not href:
            sentence = "has no xlink:href"
            _report_manifest(reference, "EB-047", ErrorCode.VALUE_NOT_RECOGNIZED, sentence)
            continue
        yield Reference(
            href,
            content_id,
            reference.description(),
            trimmed(reference.element.get(f"{{{XLINK}}}role", "")),
            tuple(map(_schema, reference.blocks("Schema"))),
        )


def _schema(block: Block) -> tuple[str, str]:
    return block.attribute("location", "EB-050"), block.attribute("version", "EB-050")


def _cid_reference(block: Block, href: str) -> tuple[str, str]:
    """The reference and the Content-ID that it names, which some put into its brackets."""
    content_id = content_id_of(href, _NO_LIMIT)
    if content_id.startswith("<") and content_id.endswith(">"):
        block.note("@xlink:href", f"is {shown(href)}: taken for one without brackets")
        content_id = content_id[1:-1].strip()
    return href, content_id


def _report_manifest(block: Block, rule: str, code: str, sentence: str) -> None:
    block.findings.add(rule, code, block.location, sentence, stage=Stage.MANIFEST)


def read_status_request(block: Block) -> str:
    block.check_frame()
    return block.text("RefToMessageId", "EB-143", needed=True, limit=MESSAGE_ID_LIMIT)


def read_status_response(block: Block) -> StatusResponse | None:
    """Return the StatusResponse; None if it lacks the MessageId that it is about, or the status."""
    block.check_frame()
    ref = block.text("RefToMessageId", "EB-143", needed=True, limit=MESSAGE_ID_LIMIT)
    text = block.attribute("messageStatus", "EB-143")
    status = _MESSAGE_STATUSES.get(text)
    if status is None:
        sentence = f"is {shown(text)}: not a status"
        block.wrong("EB-143", ErrorCode.VALUE_NOT_RECOGNIZED, "@eb:messageStatus", sentence)
    timestamp = block.instant("Timestamp", "EB-143")
    return StatusResponse(ref, status, timestamp) if ref and status else None
