"""One submitted message as the API shows it: what a submission is answered with, so not by the ORM,
which takes longer to compile the query than all else that is done for it. And the payloads of
messages, also those whose content retention has removed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msh.store.engine import Statement, run

# Lists of messages show the same (`msh/api/documents.py`).
_FIND = Statement(
    """
    SELECT message.id, message.message_id, partner.name AS partner, agreement.tpa_id,
           CASE WHEN message.state <> 'flying' THEN message.state
                WHEN flight.state = 'held' THEN 'held'
                WHEN flight.attempt = 0 THEN 'queued'
                ELSE 'in_flight' END AS state,
           message.semantics, message.service_interface, message.action, message.conversation_id,
           message.ref_to_message_id, message.sequence_number, message.epoch, message.from_role,
           message.to_role, message.service_type, message.order_number, message.size,
           message.submitted_at, message.completed_at AS ended_at,
           coalesce((SELECT max(number) FROM msh_attempt WHERE message_id = message.id),
                    message.earlier_attempts) AS attempts
    FROM msh_outboundmessage message
    JOIN msh_outboundlink link ON link.id = message.link_id
    JOIN partners_partner partner ON partner.id = link.partner_id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    LEFT JOIN msh_flight flight ON flight.message_id = message.id
    WHERE message.id = %(id)s
    """,
    dict,
)


def find_document(key: int) -> dict[str, Any] | None:
    (rows,) = run(_FIND(id=key))
    return rows[0] if rows else None


_FACTS = "message_id, position AS number, content_type, label, description, size, sha256"
_PAYLOADS = f"""
    SELECT message_id, number, content_type, label, description, size,
           encode(sha256, 'hex') AS sha256, removed
    FROM (
        SELECT {_FACTS}, false AS removed
        FROM msh_{{0}}payload WHERE message_id = ANY(%(keys)s)
        UNION ALL
        SELECT {_FACTS}, true FROM msh_removed{{0}}payload WHERE message_id = ANY(%(keys)s)) part
    ORDER BY message_id, number
"""
_FIND_PAYLOADS = {
    direction: Statement(_PAYLOADS.format(direction), dict) for direction in ("inbound", "outbound")
}


def find_payloads(direction: str, keys: Sequence[int]) -> Mapping[int, list[dict[str, Any]]]:
    """Return the payloads of messages, "inbound" or "outbound", by the message's key, in order,
    without their content. `size` in bytes and `sha256` are of the content, which is there unless it
    is `removed`."""
    (rows,) = run(_FIND_PAYLOADS[direction](keys=list(keys)))
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row.pop("message_id")].append(row)
    return found
