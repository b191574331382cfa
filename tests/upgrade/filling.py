"""`python -m tests.upgrade.filling NUMBER`: so many messages that have ended, for MSH_DATA."""

import sys

import django

from msh.standalone import datafolder

PARTNERS = 10
PREFIX = "past-"
_TERMS = (
    '{"timeout": 60, "retries": 3, "retry_interval": 60, "transient_count_limit": 10,'
    ' "transient_time_limit": 3600, "transient_wait_limit": 600, "early_warning": 0}'
)
_STATEMENTS = (
    """
    INSERT INTO msh_outboundlink (partner_id, state)
    SELECT id, 'idle' FROM partners_partner WHERE name LIKE 'past-%%'
    """,
    """
    INSERT INTO msh_inboundlink (partner_id)
    SELECT id FROM partners_partner WHERE name LIKE 'past-%%'
    """,
    """
    INSERT INTO msh_outboundmessage
        (link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
         action, ref_to_message_id, submitted_at, content_digest, size, boundary, epoch,
         sequence_number, terms, first_sent_at, completed_at)
    SELECT link.id, agreement.id, 'past-out-' || partner.id || '-' || n, 'OnceAndOnlyOnce',
           'acknowledged', 'conversation-' || n / 5, 'Orders', 'New', '', at, '\\x00', 2048,
           'boundary', 1, n, %(terms)s::jsonb, at, at
    FROM generate_series(1, %(each)s) n
    CROSS JOIN LATERAL (SELECT now() - n * interval '30 days' / %(each)s AS at) time
    CROSS JOIN partners_partner partner
    JOIN msh_outboundlink link ON link.partner_id = partner.id
    JOIN partners_agreement agreement ON agreement.partner_id = partner.id
    WHERE partner.name LIKE 'past-%%'
    """,
    """
    INSERT INTO msh_inboundmessage
        (link_id, agreement_id, message_id, semantics, state, epoch, sequence_number,
         conversation_id, service_interface, action, ref_to_message_id, sent_at, received_at,
         content_digest, header, delivered_at)
    SELECT link.id, agreement.id, 'past-in-' || partner.id || '-' || n, 'OnceAndOnlyOnce',
           'delivered', 1, n, 'conversation-' || n / 5, 'Orders', 'New', '', at, at, '\\x00',
           '\\x00', at
    FROM generate_series(1, %(each)s) n
    CROSS JOIN LATERAL (SELECT now() - n * interval '30 days' / %(each)s AS at) time
    CROSS JOIN partners_partner partner
    JOIN msh_inboundlink link ON link.partner_id = partner.id
    JOIN partners_agreement agreement ON agreement.partner_id = partner.id
    WHERE partner.name LIKE 'past-%%'
    """,
    """
    INSERT INTO msh_history (at, actor, partner_id, direction, subject, message_id, event,
                             from_state, to_state, detail)
    SELECT submitted_at, 'msh', link.partner_id, 'out', 'message', message_id, 'MessageSubmitted',
           '', 'queued', ''
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message_id LIKE 'past-%%'
    """,
    """
    INSERT INTO msh_attempt (message_id, number, claimed_at, ended_at, outcome, status, detail)
    SELECT id, 1, first_sent_at, first_sent_at, 'transmitted', 204, '204 No Content'
    FROM msh_outboundmessage WHERE message_id LIKE 'past-%%' ORDER BY id
    """,
)


def fill(messages: int) -> None:
    """Half of them out, half of them in, with PARTNERS partners."""
    from django.db import connection  # noqa: PLC0415 - models need django.setup() first

    from partners.models import Agreement, Partner  # noqa: PLC0415

    for number in range(PARTNERS):
        partner = Partner.objects.create(
            name=f"{PREFIX}{number}",
            uri=f"http://past-{number}.example/",
            our_uri="http://past.example/",
        )
        Agreement.objects.create(partner=partner, tpa_id="past", our_party="1", their_party="2")
    with connection.cursor() as cursor:
        for statement in _STATEMENTS:
            cursor.execute(statement, {"each": messages // (2 * PARTNERS), "terms": _TERMS})


def main(messages: int) -> None:
    datafolder.load_from_arguments([])
    django.setup()
    fill(messages)


if __name__ == "__main__":
    main(int(sys.argv[1]))
