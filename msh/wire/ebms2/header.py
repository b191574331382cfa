"""MessageHeader: its children in any order, and all that is wrong with them at once."""

from lxml.etree import _Element

from msh.protocol.ebms.message import (
    MessageHeader,
    PartialHeader,
    Party,
    PartyId,
    Service,
    is_uri,
)
from msh.protocol.ebms.vocabulary import SERVICE, ErrorCode, Kind
from msh.protocol.message import MESSAGE_ID_LIMIT
from msh.wire.text import shown

from .elements import Block, Findings
from .names import MESSAGE_HEADER


def read_header(
    element: _Element, findings: Findings
) -> tuple[MessageHeader | None, PartialHeader]:
    """The header, None if it lacks something that has to be known, and what of it is legible."""
    block = Block(element, MESSAGE_HEADER, findings)
    block.check_frame()
    from_party, to_party = _party(block, "From"), _party(block, "To")
    cpa_id = block.text("CPAId", "EB-032", needed=True)
    conversation_id = block.text("ConversationId", "EB-033", needed=True)
    service = _service(block)
    action = _action(block, service)
    data = block.block("MessageData", "EB-036")
    message_id, timestamp = "", None
    if data:
        message_id = data.text("MessageId", "EB-036", needed=True, limit=MESSAGE_ID_LIMIT)
        timestamp = data.instant("Timestamp", "EB-037", needed=True)
    partial = PartialHeader(
        Kind.of(service.value, action), from_party, to_party, cpa_id, conversation_id, message_id
    )
    header = None
    if data and timestamp and _is_complete(partial, service, action):
        header = MessageHeader(
            *(from_party, to_party, cpa_id, conversation_id, service, action),
            message_id=message_id,
            timestamp=timestamp,
            ref_to_message_id=data.text("RefToMessageId", "EB-038", limit=MESSAGE_ID_LIMIT),
            time_to_live=data.instant("TimeToLive", "EB-040"),
            eliminates_duplicates=block.child("DuplicateElimination", "EB-041") is not None,
            description=block.description(),
        )
    return header, partial


def _is_complete(partial: PartialHeader, service: Service, action: str) -> bool:
    return all(
        (
            partial.from_party.party_ids,
            partial.to_party.party_ids,
            partial.cpa_id,
            partial.conversation_id,
            partial.message_id,
            service.value,
            action,
        )
    )


def _party(header: Block, name: str) -> Party:
    block = header.block(name, "EB-029")
    if block is None:
        return Party(())
    if not block.children("PartyId"):
        block.wrong("EB-029", ErrorCode.VALUE_NOT_RECOGNIZED, "eb:PartyId", "is missing")
    return Party(read_party_ids(block), block.text("Role", "EB-031"))


def read_party_ids(party: Block) -> tuple[PartyId, ...]:
    """Return the readable PartyIds."""
    party_ids = map(_party_id, party.blocks("PartyId"))
    return tuple(each for each in party_ids if each.value)


def _party_id(block: Block) -> PartyId:
    party_id = PartyId(block.own_text("EB-029"), block.attribute("type", "EB-029"))
    if party_id.value and not party_id.type and not is_uri(party_id.value):
        _report_no_uri(block, "EB-030", party_id.value)
    return party_id


def _service(header: Block) -> Service:
    block = header.block("Service", "EB-034")
    if block is None:
        return Service("")
    service = Service(block.own_text("EB-034"), block.attribute("type", "EB-034"))
    if service.value and not service.type and not is_uri(service.value):
        _report_no_uri(block, "EB-034", service.value)
    return service


def _report_no_uri(block: Block, rule: str, value: str) -> None:
    sentence = f"is {shown(value)}: without a type it must be a URI"
    block.findings.add(rule, ErrorCode.INCONSISTENT, block.location, sentence, waivable=True)


def _action(header: Block, service: Service) -> str:
    action = header.text("Action", "EB-035", needed=True)
    if action and service.value == SERVICE and not Kind.of(SERVICE, action).is_signal:
        sentence = f"is {shown(action)}: the reserved Service has no such Action"
        header.wrong("EB-035", ErrorCode.VALUE_NOT_RECOGNIZED, "eb:Action", sentence)
    return action
