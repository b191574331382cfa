"""What the MSH that a forwarded message came from gets when the next hop has answered (D20).

Each does nothing unless the Acknowledgement of that message is withheld.
"""

from datetime import datetime

from msh.models import OutboundMessage, OutboundState
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import LaneState
from msh.protocol.message import Field
from msh.protocol.vocabulary import ErrorCode
from msh.store.engine import Call, Order, Write
from msh.store.history import insert_one
from msh.wire import locate

REFUSED_BY_NEXT_HOP = frozenset({IncidentKind.REFUSED_BY_PEER, IncidentKind.ERROR_RECEIVED})
"""What says that the next hop will not take the message as it is."""

_ONWARD_ACKNOWLEDGED = insert_one(
    at="at",
    partner_id="partner_id",
    direction="'in'",
    message_id="message_id",
    event="'OnwardAcknowledged'",
    from_state="'forwarding'",
    to_state="'forwarded'",
)
QUEUE_WITHHELD_ACK = Write(
    f"""
    WITH origin AS (
        UPDATE msh_inboundmessage message
        SET state = 'forwarded', delivered_at = %(at)s::timestamptz
        FROM msh_inboundlink link, partners_agreement agreement
        WHERE message.id = %(key)s AND message.state = 'forwarding'
          AND link.id = message.link_id AND agreement.id = message.agreement_id
        RETURNING message.link_id, message.message_id, message.conversation_id,
                  message.sequence_number, link.partner_id, agreement.tpa_id,
                  %(at)s::timestamptz AS at,
                  %(at)s::timestamptz
                  + interval '1 second' * GREATEST(60, timeout + retries * retry_interval)
                  AS expires_at),
    entry AS (
        {_ONWARD_ACKNOWLEDGED} FROM origin)
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         sequence_number, first_at, due, expires_at, inbound_id)
    SELECT link_id, 'Acknowledgement', message_id, tpa_id, conversation_id, '', '', '',
           sequence_number, at, at, expires_at, %(key)s FROM origin
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET pending = msh_signal.pending + 1, expires_at = EXCLUDED.expires_at, due = EXCLUDED.due,
        description = EXCLUDED.description
    """,
    order=Order.INBOUND_MESSAGE,
)

_DELIVERY_FAILED = insert_one(
    at="at",
    partner_id="partner_id",
    direction="'in'",
    message_id="message_id",
    event="%(code)s",
    from_state="'forwarding'",
    to_state="'forwarding'",
    detail="%(why)s",
)
QUEUE_DELIVERY_FAILURE = Write(
    f"""
    WITH origin AS (
        SELECT message.link_id, message.message_id, message.conversation_id,
               message.sequence_number, link.partner_id, agreement.tpa_id,
               %(at)s::timestamptz AS at,
               %(at)s::timestamptz
               + interval '1 second' * GREATEST(60, timeout + retries * retry_interval)
               AS expires_at
        FROM msh_inboundmessage message
        JOIN msh_inboundlink link ON link.id = message.link_id
        JOIN partners_agreement agreement ON agreement.id = message.agreement_id
        WHERE message.id = %(key)s AND message.state = 'forwarding'),
    entry AS (
        {_DELIVERY_FAILED} FROM origin)
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         sequence_number, first_at, due, expires_at)
    SELECT link_id, 'Error', message_id, tpa_id, conversation_id, %(code)s::text,
           %(location)s::text, %(why)s::text, sequence_number, at, at, expires_at FROM origin
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET pending = msh_signal.pending + 1, expires_at = EXCLUDED.expires_at, due = EXCLUDED.due,
        description = EXCLUDED.description
    """,
    order=Order.INBOUND_MESSAGE,
)


def queue_delivery_failure(key: int, at: datetime, why: str) -> Call[None]:
    return QUEUE_DELIVERY_FAILURE(
        key=key,
        at=at,
        why=why,
        code=ErrorCode.DELIVERY_FAILURE,
        location=locate(Field.ROUTING),
    )


def failure_of_forwarded(inbound_id: int) -> str:
    """Say why a message that was forwarded will not arrive as things stand; "" if it may."""
    forwarded = (
        OutboundMessage.objects.select_related("link").filter(forwards_id=inbound_id).first()
    )
    if forwarded is None:
        return ""
    if forwarded.state == OutboundState.CANCELLED:
        return f"cancelled by the operator of the router, outcome {forwarded.outcome}"
    link = forwarded.link
    suspended = link.state == LaneState.SUSPENDED and link.in_flight_id == forwarded.pk
    if suspended and link.suspended_for in REFUSED_BY_NEXT_HOP:
        return f"refused: {link.suspended_detail}"
    return ""
