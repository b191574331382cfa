"""A message as its first copy is composed, in ebMS 2.0."""

from datetime import datetime

from msh.protocol.ebms.message import (
    AckRequested,
    Message,
    MessageHeader,
    Party,
    PartyId,
    Reference,
    Service,
)
from msh.protocol.flight import Flight
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.flights.rows import FlyingCopy
from msh.wire.ebms2 import envelope, names
from msh.wire.values import cid

_OF_SETTING = {"always": True, "never": False}
"""Of `ack` and `eliminates`; with any other value the message's semantics decides (EB-078)."""


HEADERS = (("SOAPAction", names.SOAP_ACTION),)
"""Of each POST (EB-150)."""


def content_type_of(row: FlyingCopy) -> str:
    """Without payloads the envelope stands alone (EB-001)."""
    return envelope.content_type(row.boundary) if row.wires else names.CONTENT_TYPE


def composed(row: FlyingCopy, flight: Flight, now: datetime) -> bytes:
    """The envelope, as the first part if there are payloads. Raises ValueError, naming the place,
    for what cannot be written."""
    message = message_of(row, flight, now)
    if row.wires:
        return envelope.compose_head(message, row.boundary)
    return envelope.compose_alone(message)[1]


def message_of(row: FlyingCopy, flight: Flight, now: datetime) -> Message:
    reliable = row.semantics == DeliverySemantics.ONCE_AND_ONLY_ONCE
    asks = _OF_SETTING.get(row.ack, reliable)
    references = zip(row.content_ids or (), row.descriptions or (), strict=True)
    return Message(
        MessageHeader(
            from_party=_party(row.our_party, row.our_party_context, row.our_role),
            to_party=_party(row.their_party, row.their_party_context, row.their_role),
            cpa_id=row.tpa_id,
            conversation_id=row.conversation_id,
            service=Service(row.service_interface, row.service_type),
            action=row.action,
            message_id=row.message_id,
            timestamp=now,  # EB-037
            ref_to_message_id=row.ref_to_message_id,
            time_to_live=flight.expires_at,
            eliminates_duplicates=_OF_SETTING.get(row.eliminates, reliable),
        ),
        ack_requested=(AckRequested(),) if asks else (),
        manifest=tuple(Reference(cid(one), one, description) for one, description in references),
    )


def _party(value: str, kind: str, role: str) -> Party:
    return Party((PartyId(value, kind),), role)
