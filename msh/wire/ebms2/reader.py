"""Envelope to Message: lenient, and exact about what it refuses."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from msh.protocol.ebms.errors import Unusable
from msh.protocol.ebms.message import Message, MessageHeader
from msh.protocol.ebms.vocabulary import ErrorCode, Kind, Stage
from msh.wire.document import in_utf_8

from . import blocks
from .elements import Block, Findings
from .header import read_header
from .names import BODY, HEADER
from .soap import Frame, read_frame

_AT_MOST_ONCE = (
    "eb:MessageHeader",
    "eb:SyncReply",
    "eb:MessageOrder",
    "eb:ErrorList",
    "ds:Signature",
)


@dataclass(frozen=True, slots=True)
class EnvelopeReading:
    """A message, and what of its envelope must be equal in every copy of it (EB-101)."""

    message: Message
    identity: bytes


def read(envelope: bytes, findings: Findings, charset: str = "") -> EnvelopeReading:
    """`charset` is what its Content-Type says. Raises NotAMessage for what is no ebXML message,
    Unusable for one whose MessageHeader cannot be used; whatever else is wrong is added to the
    findings."""
    utf_8, other = in_utf_8(envelope, charset)
    if other:
        findings.notes.append(f"the envelope is in {other}")
    return _Reader(read_frame(utf_8), findings).read()


class _Reader:
    def __init__(self, frame: Frame, findings: Findings) -> None:
        self.frame = frame
        self.findings = findings

    def read(self) -> EnvelopeReading:
        self._check_places()
        element = self.frame.header_blocks["eb:MessageHeader"][0]
        header, partial = read_header(element, self.findings)
        if header is None:
            raise Unusable(tuple(self.findings.defects), partial)
        message = self._message(header)
        self._check_order(message)
        self._check_signal(message)
        return EnvelopeReading(message, _identity(message))

    def _check_places(self) -> None:
        """Each block where it belongs, as often as it may be there (EB-024)."""
        for name in self.frame.misplaced:
            self._add("EB-024", f"//{name}", "stands in a wrong place")
        for name in _AT_MOST_ONCE:
            if len(self.frame.header_blocks.get(name, ())) > 1:
                self._add("EB-024", f"{HEADER}/{name}", "stands there more than once")
        for name, found in self.frame.body_blocks.items():
            if len(found) > 1:
                self._add("EB-024", f"{BODY}/{name}", "stands there more than once")

    def _add(self, rule: str, location: str, sentence: str, stage: Stage = Stage.HEADER) -> None:
        code = ErrorCode.INCONSISTENT
        waivable = stage is Stage.ORDER
        self.findings.add(rule, code, location, sentence, stage=stage, waivable=waivable)

    def _message(self, header: MessageHeader) -> Message:
        sync_reply, order = self._block("eb:SyncReply"), self._block("eb:MessageOrder")
        error_list, manifest = self._block("eb:ErrorList"), self._block("eb:Manifest")
        request, response = self._block("eb:StatusRequest"), self._block("eb:StatusResponse")
        return Message(
            header,
            blocks.read_ack_requested(self._blocks("eb:AckRequested")),
            sync_reply is not None and blocks.read_sync_reply(sync_reply),
            None if order is None else blocks.read_order(order),
            blocks.read_acknowledgments(self._blocks("eb:Acknowledgment")),
            () if error_list is None else blocks.read_errors(error_list),
            () if manifest is None else tuple(blocks.read_manifest(manifest)),
            "" if request is None else blocks.read_status_request(request),
            None if response is None else blocks.read_status_response(response),
            signed="ds:Signature" in self.frame.header_blocks,
        )

    def _blocks(self, name: str) -> Iterator[Block]:
        for parent, found in (
            (HEADER, self.frame.header_blocks),
            (BODY, self.frame.body_blocks),
        ):
            for element in found.get(name, ()):
                yield Block(element, f"{parent}/{name}", self.findings)

    def _block(self, name: str) -> Block | None:
        """The first of them. Most names stand in no envelope."""
        frame = self.frame
        if name in frame.header_blocks or name in frame.body_blocks:
            return next(self._blocks(name), None)
        return None

    def _check_order(self, message: Message) -> None:
        """Check what MessageOrder requires of the rest of the message (EB-125, EB-076)."""
        if message.order is None:
            return
        location = f"{HEADER}/eb:MessageOrder"
        if not (message.header.eliminates_duplicates and message.ack_requested):
            sentence = "needs DuplicateElimination and AckRequested"
            self._add("EB-125", location, sentence, Stage.ORDER)
        if message.sync_reply:
            self._add("EB-076", location, "does not go with SyncReply", Stage.ORDER)

    def _check_signal(self, message: Message) -> None:
        """Whether a signal has what it is about. None of it is ever answered (EB-062)."""
        kind = message.header.kind
        acknowledges = any(one.acknowledged and one.message_id for one in message.answers)
        if kind is Kind.ACKNOWLEDGMENT and not acknowledges:
            self._add("EB-086", f"{HEADER}/eb:Acknowledgment", "is missing, or names no message")
        if kind is Kind.MESSAGE_ERROR and not (message.errors and message.header.ref_to_message_id):
            self._add("EB-061", f"{HEADER}/eb:ErrorList", "is missing, or names no message")
        if kind is Kind.STATUS_REQUEST and not message.status_request:
            self._add("EB-143", f"{BODY}/eb:StatusRequest", "is missing, or names no message")
        if kind is Kind.STATUS_RESPONSE and message.status_response is None:
            self._add("EB-143", f"{BODY}/eb:StatusResponse", "is missing or unreadable")


def _identity(message: Message) -> bytes:
    """A sender that composes a retry anew has other prefixes, ids and times (EB-101)."""
    header, order = message.header, message.order
    parties = (
        (sorted((one.type, one.value) for one in party.party_ids), party.role)
        for party in (header.from_party, header.to_party)
    )
    manifest = (
        (f"cid:{one.content_id}" if one.is_cid else one.href, one.role, one.schemas)
        for one in message.manifest
    )
    items = (
        *parties,
        header.cpa_id,
        header.conversation_id,
        (header.service.type, header.service.value),
        header.action,
        header.ref_to_message_id,
        order and (order.sequence_number, order.status),
        *manifest,
    )
    return json.dumps(items).encode()
