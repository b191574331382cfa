"""Calls to operators: made from what is open, claimed, and ended."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from msh.models import OperatorNotice
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.lane import LaneState
from msh.store.engine import Write, run

EARLY_WARNING = "early_warning"
"""The kind of a notice that no incident stands behind: retries remain."""

# An incident that somebody is writing is announced the next time: nobody waits for this. What the
# partner answered last is said with it, unless the incident's detail is just that.
_ANNOUNCE = Write("""
    WITH fresh AS (
        SELECT id FROM msh_incident WHERE NOT announced
        ORDER BY id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED),
    opened AS (
        UPDATE msh_incident incident SET announced = true FROM fresh WHERE incident.id = fresh.id
        RETURNING incident.id, partner_id, direction, kind, message_id, detail, opened_at)
    INSERT INTO msh_operatornotice
        (cause, channel, partner_id, incident_id, kind, message_id, detail, at, due)
    SELECT 'incident:' || opened.id, channel, opened.partner_id, opened.id, opened.kind,
           opened.message_id, concat_ws('; last answer: ', opened.detail, answer.detail),
           opened.opened_at, statement_timestamp()
    FROM opened
    LEFT JOIN LATERAL (
        SELECT NULLIF(NULLIF(attempt.detail, ''), opened.detail) AS detail
        FROM msh_outboundlink link
        JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
        JOIN msh_attempt attempt ON attempt.message_id = flying.id
        WHERE link.partner_id = opened.partner_id AND opened.direction = 'out'
          AND flying.message_id = opened.message_id AND attempt.ended_at IS NOT NULL
        ORDER BY attempt.number DESC LIMIT 1) answer ON true
    CROSS JOIN unnest(%(channels)s::text[]) channel
    ON CONFLICT (cause, channel) DO NOTHING
""")
# A message is late while retries remain: when it has spent the retry that its agreement names,
# without one half of them; and at the first answer that says that the same bytes will hardly be
# taken (D35). Terms that cannot be read warn of nothing, and hinder no other warning.
_WARN = Write("""
    INSERT INTO msh_operatornotice
        (cause, channel, partner_id, kind, message_id, detail, at, due)
    SELECT 'late:' || link.partner_id || ':' || flying.message_id, channel, link.partner_id,
           %(kind)s, flying.message_id,
           'no Acknowledgement yet, ' || link.retries_spent || ' of '
               || terms.retries || ' retries spent; last answer: '
               || COALESCE(NULLIF(answer.detail, ''), 'none'),
           statement_timestamp(), statement_timestamp()
    FROM msh_outboundlink link JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        SELECT outcome, detail FROM msh_attempt
        WHERE message_id = flying.id AND ended_at IS NOT NULL
        ORDER BY number DESC LIMIT 1) answer ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN jsonb_typeof(flying.terms -> 'retries') = 'number'
                    THEN (flying.terms ->> 'retries')::numeric END AS retries,
               CASE WHEN jsonb_typeof(flying.terms -> 'early_warning') = 'number'
                    THEN (flying.terms ->> 'early_warning')::numeric END AS early_warning) terms
    CROSS JOIN unnest(%(channels)s::text[]) channel
    WHERE link.state = ANY(%(states)s) AND link.retries_spent < terms.retries
      AND (answer.outcome = %(doubted)s
           OR (link.retries_spent > 0
               AND link.retries_spent >= COALESCE(NULLIF(terms.early_warning, 0),
                                                  div(terms.retries + 1, 2))))
      AND NOT EXISTS (
        SELECT FROM msh_operatornotice earlier
        WHERE earlier.cause = 'late:' || link.partner_id || ':' || flying.message_id
          AND earlier.channel = channel.channel)
    ON CONFLICT (cause, channel) DO NOTHING
""")
_UNDER_WAY = [LaneState.WAITING, LaneState.TRANSIENT]


def make_notices(channels: Collection[str]) -> None:
    through = list(channels)
    run(
        _ANNOUNCE(channels=through),
        _WARN(
            channels=through,
            kind=EARLY_WARNING,
            states=_UNDER_WAY,
            doubted=AttemptOutcome.DOUBTED,
        ),
    )


def claim_notices(channel: str, limit: int, lease: timedelta) -> list[OperatorNotice]:
    """Notices of a channel that are due, the oldest first, in the caller's transaction. What is
    not ended within `lease` is due again."""
    due = OperatorNotice.objects.filter(
        channel=channel, sent_at=None, given_up=False, due__lte=Now()
    )
    locked = due.order_by("due").select_for_update(skip_locked=True, no_key=True)
    keys = list(locked.values_list("pk", flat=True)[:limit])
    OperatorNotice.objects.filter(pk__in=keys).update(due=Now() + lease, tries=F("tries") + 1)
    claimed = OperatorNotice.objects.filter(pk__in=keys).order_by("pk")
    return list(claimed.select_related("partner__outbound_link"))


def mark_sent(notices: Sequence[OperatorNotice]) -> None:
    keys = [notice.pk for notice in notices]
    OperatorNotice.objects.filter(pk__in=keys).update(sent_at=Now(), error="")


def mark_failed(notice: OperatorNotice, why: str, wait: timedelta, *, give_up: bool) -> None:
    OperatorNotice.objects.filter(pk=notice.pk).update(
        error=why, due=Now() + wait, given_up=give_up
    )
