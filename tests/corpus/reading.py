"""The whole corpus through the reader: what became of each message, and a table of it."""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import SoapFault
from msh.wire.ebms2.envelope import parse_answer

from .described import describe, described
from .loading import Request, requests

PRODUCTS = {
    "nhs-mhs": "NHS MHS and Spine",
    "nhs-gp2gp": "NHS GP2GP adaptor",
    "nhs-nia": "NHS switching adaptor",
    "navikt-processor": "Norwegian senders, NAV eMottak",
    "navikt-signatur": "webMethods",
    "hermes": "Hermes 2",
    "ebms-core": "ebms-core",
}

_NO_HEADER = "SOAP without an ebXML header: Fault Client (EB-016)"
_NOT_XML = "not well-formed as stored: Fault Client (EB-016)"
_DOCTYPE = "a DOCTYPE with an external entity: Fault Client (EB-025)"
_TRUNCATED = "the package is cut short: MimeProblem (EB-013)"
_NO_PART = "the Manifest names a part that is not there: MimeProblem (EB-047)"
_BASE64 = "a stray character in base64: MimeProblem (EB-008)"
_VERSION = "version 1.0 of a block: Inconsistent (EB-022)"
_ACTOR = "an actor that is none of the two MSHs: Inconsistent (EB-044)"
_SYNC_ACTOR = "SyncReply for another actor than next: Inconsistent (EB-068)"
_ORDER = "MessageOrder with SyncReply: Inconsistent (EB-076)"
_NO_REFERENCE = "a Manifest without Reference: Inconsistent (EB-052)"
_NO_PARTY = "From without PartyId: ValueNotRecognized (EB-029)"
_TIMESTAMP = "Timestamp `null`: ValueNotRecognized (EB-037)"
_TIME_TO_LIVE = "TimeToLive that is no xs:dateTime: ValueNotRecognized (EB-040)"

REFUSED = {
    "expected_messages/soap_request.xml": _NO_HEADER,
    "vnp_responses/sync_outbound_response.mustache": _NO_HEADER,
    "inbound/sync_message.xml": _NO_HEADER,
    "test_messages/soap_request_with_defect.msg": _NO_HEADER,
    "INBOUND_UNEXPECTED_INVALID_MESSAGE.mustache": "no Action: ValueNotRecognized (EB-035)",
    "ebxml_header_empty.xml": "an empty MessageHeader: ValueNotRecognized (EB-029)",
    "ebxml_request_invalid_binary_ebxml_header.msg": "no ebXML part: Fault Client (EB-016)",
    "ebxml_request_no_header.msg": "no package: Fault Client (EB-016)",
    "ebxml_request_multibyte_character.msg": _NO_PART,
    "ebxml_request_no_payload.msg": _NO_PART,
    "ebxml_request_one_attachment_application_xml_content_compressed.msg": _BASE64,
    "ebxml_request_one_attachment_text_plain_content_compressed.msg": _BASE64,
    "ebxml_request_one_external_attachment.msg": _TRUNCATED,
    "ebxml_request_payload_defect.msg": "a part without a blank line: MimeProblem (EB-013)",
    "index-message-with-cid/copc0.json": _TIMESTAMP,
    "index-message-with-cid/copc_index.json": _TIMESTAMP,
    "ValidMessages/COPC_IN000001UK01.txt": _NOT_XML,
    "ValidMessages/RCMR_IN030000UK06.txt": _NOT_XML,
    "mail/content_description.eml": "truncated upstream: Fault Client (EB-016)",
    "messages/test3.msg": _TIME_TO_LIVE,
    "messages/test4.msg": _TIME_TO_LIVE,
    "EbMSMessageInvalidAckRequestedActor": _ACTOR,
    "EbMSMessageInvalidAckRequestedVersion": _VERSION,
    "EbMSMessageInvalidManifestVersion": _VERSION,
    "EbMSMessageInvalidMessageHeaderVersion": _VERSION,
    "EbMSMessageInvalidSyncReplyActor": _SYNC_ACTOR,
    "EbMSMessageInvalidSyncReplyVersion": _VERSION,
    "EbMSMessageMessageOrder": _ORDER,
    "EbMSMessageMissingFromPartyId": _NO_PARTY,
    "EbMSMessageMissingReference": _NO_REFERENCE,
    "EbMSPingXXE": _DOCTYPE,
}
"""The end of a file's name, or the step of the SoapUI project, and why it is refused."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason` is how it was refused: error code and row, or Fault. `problem` is what contradicts
    the description of the message."""

    request: Request
    reason: str = ""
    fault: bool = False
    problem: str = ""

    @property
    def label(self) -> str:
        return f"{self.request.file} {self.request.name}".strip()

    @property
    def expected(self) -> str:
        """The reason that REFUSED gives, empty if the message is to be read."""
        stem = self.request.name or self.request.file.removesuffix(".xml").rpartition("/")[2]
        named = (why for end, why in REFUSED.items() if self.request.file.endswith(end))
        return REFUSED.get(stem) or next(named, "")


def read_corpus(folder: Path) -> Iterator[Outcome]:
    with (folder / "sources.csv").open(newline="") as listed:
        rows = {row["file"]: row["what"] for row in csv.DictReader(listed)}
    for file, what in rows.items():
        envelope = f"{file.removesuffix('.msg')}.ebxml"
        description = rows[envelope] if what.startswith("MIME frame; put") else what
        for request in requests(folder, file, what):
            yield _read(request, description)


LEFT_TO_THE_APPLICATION = ("EB-175", "EB-185")
"""What agreements with these products are lenient for: signatures and encryption."""


def _read(request: Request, what: str) -> Outcome:
    try:
        answer = parse_answer(request.content_type, request.body)
    except NotAMessage as problem:
        return Outcome(request, f"Fault {problem.code}: {problem}")
    except Unusable as problem:
        first = problem.defects[0]
        return Outcome(request, f"{first.error.code} ({first.rule}): {problem}")
    if isinstance(answer, SoapFault):
        contradiction = "" if "SOAP Fault" in what else f"described as {what}"
        return Outcome(request, fault=True, problem=contradiction)
    defects = [one for one in answer.defects if one.rule not in LEFT_TO_THE_APPLICATION]
    if defects and not answer.message.header.kind.is_signal:
        first = min(defects, key=lambda defect: defect.stage)
        return Outcome(request, f"{first.error.code} ({first.rule}): {first.error.description}")
    says = described(what)
    reads = None if says is None else describe(answer.message, says.action)
    return Outcome(request, problem="" if reads == says else f"{reads} is not {says}")


def surprises(outcomes: list[Outcome]) -> list[str]:
    """What is not as it is described: one line each."""
    found = [f"{each.label}: {each.problem}" for each in outcomes if each.problem]
    for each in outcomes:
        words = each.expected.rpartition(": ")[2].replace("Fault Client (", "Fault Client:(")
        wanted = words.partition(":")[0] if words.startswith("Fault") else words
        if bool(wanted) != bool(each.reason) or not each.reason.startswith(wanted):
            found.append(f"{each.label}: {each.reason or 'read'}, expected {wanted or 'read'}")
    return found


def table(outcomes: list[Outcome]) -> str:
    """Product → messages → read or refused → reason, as Markdown."""
    lines = ["| product | messages | read | refused | why |", "|---|---|---|---|---|"]
    for folder, product in PRODUCTS.items():
        own = [each for each in outcomes if each.request.file.startswith(f"{folder}/")]
        reasons = Counter(each.expected for each in own if each.reason)
        why = "; ".join(f"{count} x {reason}" for reason, count in sorted(reasons.items()))
        refused = reasons.total()
        lines.append(f"| {product} | {len(own)} | {len(own) - refused} | {refused} | {why} |")
    return "\n".join(lines) + "\n"
