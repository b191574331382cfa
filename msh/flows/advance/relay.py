"""Back to the MSH that a message came from: what it is owed when the onward MSH has answered (D20).

Each statement takes (row id of the inbound message, now[, why]) and does nothing unless that
message's Acknowledgement is withheld.
"""

from msh.models import OutboundMessage, OutboundState
from msh.protocol.effects import IncidentKind
from msh.protocol.lane import LaneState
from msh.protocol.message import Field
from msh.protocol.vocabulary import ErrorCode
from msh.wire import locate

REFUSED_ONWARD = frozenset({IncidentKind.REFUSED_BY_PEER, IncidentKind.ERROR_RECEIVED})
"""What says that the onward MSH will not take the message as it is."""

_HORIZON = "interval '1 second' * GREATEST(60, timeout + retries * retry_interval)"
_OWED_ONCE_MORE = """
    ON CONFLICT (link_id, kind, code, ref_to_message_id) DO UPDATE
    SET owed = msh_signal.owed + 1, expires_at = EXCLUDED.expires_at, due = EXCLUDED.due,
        description = EXCLUDED.description
"""

OWE_WITHHELD_ACK = f"""
    WITH given (id, at) AS (VALUES (%s::bigint, %s::timestamptz)),
    origin AS (
        UPDATE msh_inboundmessage message
        SET state = 'relayed', delivered_at = given.at
        FROM given, msh_inboundlink link, partners_agreement agreement
        WHERE message.id = given.id AND message.state = 'relaying'
          AND link.id = message.link_id AND agreement.id = message.agreement_id
        RETURNING message.link_id, message.message_id, message.conversation_id,
                  message.sequence_number, link.partner_id, agreement.tpa_id, given.at,
                  given.at + {_HORIZON} AS expires_at),
    story AS (
        INSERT INTO msh_history
            (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state,
             detail)
        SELECT at, 'msh', partner_id, 'in', 'message', message_id, 'OnwardAcknowledged',
               'relaying', 'relayed', '' FROM origin)
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         sequence_number, first_at, due, expires_at)
    SELECT link_id, 'Acknowledgement', message_id, tpa_id, conversation_id, '', '', '',
           sequence_number, at, at, expires_at FROM origin
    {_OWED_ONCE_MORE}
"""

OWE_DELIVERY_FAILURE = f"""
    WITH given (id, at, why) AS (VALUES (%s::bigint, %s::timestamptz, %s::text)),
    origin AS (
        SELECT message.link_id, message.message_id, message.conversation_id,
               message.sequence_number, link.partner_id, agreement.tpa_id, given.at, given.why,
               given.at + {_HORIZON} AS expires_at
        FROM given JOIN msh_inboundmessage message ON message.id = given.id
        JOIN msh_inboundlink link ON link.id = message.link_id
        JOIN partners_agreement agreement ON agreement.id = message.agreement_id
        WHERE message.state = 'relaying'),
    story AS (
        INSERT INTO msh_history
            (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state,
             detail)
        SELECT at, 'msh', partner_id, 'in', 'message', message_id, '{ErrorCode.DELIVERY_FAILURE}',
               'relaying', 'relaying', why FROM origin)
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         sequence_number, first_at, due, expires_at)
    SELECT link_id, 'Error', message_id, tpa_id, conversation_id, '{ErrorCode.DELIVERY_FAILURE}',
           '{locate(Field.ROUTING)}', why, sequence_number, at, at, expires_at FROM origin
    {_OWED_ONCE_MORE}
"""


def failure_onward(inbound_id: int) -> str:
    """Why a message that was sent on will not arrive as things stand; "" if it may."""
    onward = OutboundMessage.objects.select_related("link").filter(relays_id=inbound_id).first()
    if onward is None:
        return ""
    if onward.state == OutboundState.CANCELLED:
        return f"cancelled by the operator of the router, outcome {onward.outcome}"
    link = onward.link
    suspended = link.state == LaneState.SUSPENDED and link.in_flight_id == onward.pk
    if suspended and link.suspended_for in REFUSED_ONWARD:
        return f"refused: {link.suspended_detail}"
    return ""
