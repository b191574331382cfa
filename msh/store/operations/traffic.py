"""Minutes that are over, and the one that runs: counted from the history and the attempts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msh.models import Traffic
from msh.store.engine import Statement, Write, run

MINUTE = timedelta(minutes=1)
AT_ONCE = timedelta(hours=1)
"""The longest stretch that is counted in one statement, after the counting had stopped."""
KEPT = timedelta(days=8)
"""The dashboard shows a day. No more than this is counted after the counting had stopped."""

_COUNT = Write("""
    INSERT INTO msh_traffic (minute, sent, received, retries, duplicates)
    SELECT minute, sum(sent), sum(received), sum(retries), sum(duplicates) FROM (
        SELECT date_trunc('minute', at) AS minute,
               count(*) FILTER (WHERE direction = 'out' AND to_state = 'acknowledged') AS sent,
               count(*) FILTER (WHERE direction = 'in' AND event = 'MessageArrived'
                                  AND to_state IN ('accepted', 'held')) AS received,
               0 AS retries,
               coalesce(sum(times) FILTER (WHERE event = 'DuplicateArrived'), 0) AS duplicates
        FROM msh_history
        WHERE at >= %(begin)s AND at < %(end)s AND subject = 'message' GROUP BY 1
        UNION ALL
        SELECT date_trunc('minute', claimed_at), 0, 0, count(*) FILTER (WHERE number > 1), 0
        FROM msh_attempt WHERE claimed_at >= %(begin)s AND claimed_at < %(end)s GROUP BY 1) counted
    GROUP BY minute
    ON CONFLICT (minute) DO UPDATE
    SET sent = EXCLUDED.sent, received = EXCLUDED.received, retries = EXCLUDED.retries,
        duplicates = EXCLUDED.duplicates
""")


@dataclass(frozen=True, slots=True)
class _Since:
    """Whether there is something to count."""

    any: bool


_SINCE = Statement(
    """
    SELECT EXISTS (SELECT FROM msh_history WHERE at >= %(begin)s)
        OR EXISTS (SELECT FROM msh_attempt WHERE claimed_at >= %(begin)s) AS any
    """,
    _Since,
)


def count_traffic(now: datetime) -> None:
    """Count from the minute before the last one counted: rows of a transaction that committed
    late are still taken in. After days without messages, not each of their hours."""
    last = Traffic.objects.order_by("-minute").values_list("minute", flat=True).first()
    begin = now - timedelta(days=1) if last is None else max(last - MINUTE, now - KEPT)
    begin = begin.replace(second=0, microsecond=0)
    while begin < now:
        end = min(begin + AT_ONCE, now + MINUTE)
        run(_COUNT(begin=begin, end=end))
        begin = end
        if begin < now and not run(_SINCE(begin=begin))[0][0].any:
            break
    Traffic.objects.filter(minute__lt=now - KEPT).delete()
