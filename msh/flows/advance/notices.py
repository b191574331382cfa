"""Calls to operators: made from what is open, claimed, and ended."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import F
from django.db.models.functions import Now

from msh.models import OperatorNotice, hot
from msh.protocol.lane import LaneState

EARLY_WARNING = "early_warning"
"""The kind of a notice that no incident stands behind: retries remain."""

_ANNOUNCE = """
    WITH opened AS (
        UPDATE msh_incident SET announced = true WHERE NOT announced
        RETURNING id, partner_id, kind, message_id, detail, opened_at)
    INSERT INTO msh_operatornotice
        (cause, channel, partner_id, incident_id, kind, message_id, detail, at, due)
    SELECT 'incident:' || id, channel, partner_id, id, kind, message_id, detail, opened_at,
           statement_timestamp()
    FROM opened CROSS JOIN unnest(%s::text[]) channel
    ON CONFLICT (cause, channel) DO NOTHING
"""
# A message is late when it has spent the retry that its agreement names; without one, half.
_WARN = """
    INSERT INTO msh_operatornotice
        (cause, channel, partner_id, kind, message_id, detail, at, due)
    SELECT 'late:' || link.partner_id || ':' || flying.message_id, channel, link.partner_id,
           %s, flying.message_id,
           'retry ' || link.retries_spent || ' of ' || (flying.terms->>'retries')
               || ': no Acknowledgement yet',
           statement_timestamp(), statement_timestamp()
    FROM msh_outboundlink link JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    CROSS JOIN unnest(%s::text[]) channel
    WHERE link.state = ANY(%s) AND link.retries_spent > 0
      AND link.retries_spent >= COALESCE(NULLIF((flying.terms->>'early_warning')::int, 0),
                                         ((flying.terms->>'retries')::int + 1) / 2)
    ON CONFLICT (cause, channel) DO NOTHING
"""


def make_notices(channels: Collection[str]) -> None:
    """A row for each incident that nobody was called for, and each message that is late."""
    hot.run(
        (_ANNOUNCE, (list(channels),)),
        (_WARN, (EARLY_WARNING, list(channels), [LaneState.WAITING, LaneState.TRANSIENT])),
    )


def claim_notices(limit: int, lease: timedelta) -> list[OperatorNotice]:
    """Notices that are due, in the caller's transaction; they are due again after `lease`."""
    due = OperatorNotice.objects.filter(told_at=None, given_up=False, due__lte=Now())
    locked = due.order_by("due").select_for_update(skip_locked=True, no_key=True)
    keys = list(locked.values_list("pk", flat=True)[:limit])
    OperatorNotice.objects.filter(pk__in=keys).update(due=Now() + lease, tries=F("tries") + 1)
    claimed = OperatorNotice.objects.filter(pk__in=keys).order_by("pk")
    return list(claimed.select_related("partner__outbound_link", "partner__inbound_link"))


def notice_told(notice: OperatorNotice) -> None:
    OperatorNotice.objects.filter(pk=notice.pk).update(told_at=Now(), error="")


def notice_failed(notice: OperatorNotice, why: str, due: datetime, *, give_up: bool) -> None:
    OperatorNotice.objects.filter(pk=notice.pk).update(error=why, due=due, given_up=give_up)
