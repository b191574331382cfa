"""Business keys: which messages are still to be indexed, and the values that were found.

Ids are given before a commit, so a message may appear behind the last one that was seen. Ids that
are missing are kept as gaps until every transaction that was open then has ended.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from msh.protocol.business_keys import SIZE_LIMIT
from msh.store.engine import Key, Statement, Write, run, run_all

from .models import KeyProgress, KeyRule

PARTS = 5
"""Payloads of a message that are searched, the first ones."""
REST = 10.0
"""Seconds that a gap is kept at least: an id is taken a moment before its transaction has one."""
FIRST_GAP = 1000
"""Ids that may be of open transactions when the first rule is made."""


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A message, and whether payloads of it are searched at all is for its rules to say."""

    id: int
    agreement_id: int
    service_interface: str
    action: str
    boundary: str


@dataclass(frozen=True, slots=True)
class Document:
    message_id: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Horizon:
    """The first transaction that is open, the first that has not begun, and the time in seconds."""

    oldest: int
    next: int
    now: float


@dataclass(frozen=True, slots=True)
class _Highest:
    id: int


Gap = tuple[int, int, int, float]
"""First and last missing id; the transaction, and the seconds, behind which it is settled."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The statements for one direction."""

    highest: Statement[_Highest]
    newer: Statement[Unindexed]
    between: Statement[Unindexed]
    older: Statement[Unindexed]
    documents: Statement[Document]
    insert: Write


_MESSAGES = """
    SELECT id, agreement_id, service_interface, action, {boundary} AS boundary
    FROM msh_{direction}message
"""


def _side(direction: str, boundary: str, content: str) -> _Side:
    messages = _MESSAGES.format(boundary=boundary, direction=direction)
    return _Side(
        Statement(f"SELECT coalesce(max(id), 0) AS id FROM msh_{direction}message", _Highest),
        Statement(f"{messages} WHERE id > %(after)s ORDER BY id LIMIT %(limit)s", Unindexed),
        Statement(
            f"{messages} WHERE id BETWEEN %(first)s AND %(last)s ORDER BY id LIMIT %(limit)s",
            Unindexed,
        ),
        Statement(f"{messages} WHERE id < %(before)s ORDER BY id DESC LIMIT %(limit)s", Unindexed),
        Statement(
            f"""
            SELECT message_id, {content} AS content FROM msh_{direction}payload
            WHERE message_id = ANY(%(keys)s) AND position <= {PARTS}
              AND octet_length({content}) <= {SIZE_LIMIT}
            ORDER BY message_id, position
            """,
            Document,
            binary=True,
        ),
        # Retention may have removed the message meanwhile: its row is held, or there is none.
        Write(
            f"""
            INSERT INTO msh_businesskey (rule_id, {direction}_id, value)
            SELECT found.rule_id, message.id, found.value
            FROM unnest(%(rules)s::bigint[], %(keys)s::bigint[], %(values)s::text[])
                AS found (rule_id, key, value)
            JOIN LATERAL (
                SELECT id FROM msh_{direction}message WHERE id = found.key FOR KEY SHARE) message
                ON true
            ON CONFLICT DO NOTHING
            """
        ),
    )


_SIDES = {
    "inbound": _side("inbound", "''", "content"),
    "outbound": _side("outbound", "boundary", "wire"),
}
DIRECTIONS = tuple(_SIDES)

_HORIZON = Statement(
    """
    SELECT pg_snapshot_xmin(at)::text::bigint AS oldest, pg_snapshot_xmax(at)::text::bigint AS next,
           extract(epoch FROM clock_timestamp())::float8 AS now
    FROM pg_current_snapshot() at
    """,
    _Horizon,
)
_REMOVE = Statement(
    """
    DELETE FROM msh_businesskey WHERE id IN (
        SELECT id FROM msh_businesskey WHERE rule_id = ANY(%(rules)s) LIMIT %(limit)s)
    RETURNING id
    """,
    Key,
)


@dataclass(slots=True)
class Indexing:
    """The progress of one direction, which this transaction holds."""

    row: KeyProgress

    @property
    def _side(self) -> _Side:
        return _SIDES[self.row.direction]

    def newer(self, limit: int) -> list[Unindexed]:
        """Return the next messages that were not seen. Ids that are missing between them become
        gaps."""
        (found,) = run(self._side.newer(after=self.row.seen, limit=limit))
        if found:
            ((horizon,),) = run(_HORIZON())  # later than what was read
            self.row.gaps += _gaps(self.row.seen, [one.id for one in found], horizon)
            self.row.seen = found[-1].id
        return found

    def settled(self, limit: int) -> list[Unindexed]:
        """Return messages in gaps in which no more can appear."""
        found: list[Unindexed] = []
        if self.row.gaps:
            ((horizon,),) = run(_HORIZON())
            kept: list[Gap] = []
            for gap in map(tuple, self.row.gaps):
                kept += self._settle(gap, horizon, limit, found)
            self.row.gaps = kept
        return found

    def _settle(
        self, gap: Gap, horizon: _Horizon, limit: int, found: list[Unindexed]
    ) -> Iterable[Gap]:
        """Return what remains of it."""
        first, last, transaction, at = gap
        left = limit - len(found)
        # One that has not begun yet was of the database that this one was restored from.
        may_be_open = horizon.oldest < transaction <= horizon.next
        if left <= 0 or may_be_open or 0 <= horizon.now - at < REST:
            return [gap]
        (rows,) = run(self._side.between(first=first, last=last, limit=left))
        found += rows
        return [(rows[-1].id + 1, last, transaction, at)] if len(rows) == left else []

    def older(self, rule: KeyRule, limit: int) -> list[Unindexed]:
        """Return messages that were stored before the rule, newest first."""
        name = f"{self.row.direction}_before"
        enabled = KeyRule.objects.filter(pk=rule.pk, enabled=True)  # as it is under our lock
        before = enabled.values_list(name, flat=True).first()
        if before == 0 or not enabled.exists():
            return []
        (found,) = run(self._side.older(before=before or self.row.seen + 1, limit=limit))
        enabled.update(**{name: found[-1].id if len(found) == limit else 0})
        return found

    def documents(self, keys: Collection[int]) -> list[Document]:
        return run(self._side.documents(keys=list(keys)))[0]

    def keep(self, found: Sequence[tuple[int, int, str]]) -> None:
        """Store values by (id of the rule, id of the message, value), and how far this is."""
        if found:
            rules, keys, values = map(list, zip(*found, strict=True))
            run_all([self._side.insert(rules=rules, keys=keys, values=values)])
        self.row.save()


def lock_progress(direction: str) -> Indexing | None:
    """Lock the progress; None if another worker has it. The first time it begins behind what is
    stored."""
    if not KeyProgress.objects.filter(pk=direction).exists():
        (highest,), (horizon,) = run(_SIDES[direction].highest(), _HORIZON())
        gap = (max(0, highest.id - FIRST_GAP) + 1, highest.id, horizon.next, horizon.now)
        begun = {"seen": highest.id, "gaps": [gap]}
        KeyProgress.objects.get_or_create(pk=direction, defaults=begun)
    rows = KeyProgress.objects.filter(pk=direction)
    row = rows.select_for_update(skip_locked=True, no_key=True).first()
    return Indexing(row) if row else None


def forget_progress() -> None:
    """Forget how far the job is: if no rule is enabled, or has begun, what comes from now on is
    indexed as what was stored before. In the caller's transaction; what another worker has stays.
    """
    rows = KeyProgress.objects.select_for_update(skip_locked=True)
    held = [row.pk for row in rows]
    begun = Q(inbound_before__isnull=False) | Q(outbound_before__isnull=False)
    if not KeyRule.objects.filter(Q(enabled=True) | begun).exists():
        KeyProgress.objects.filter(pk__in=held).delete()


def remove_keys(rules: Iterable[KeyRule], limit: int) -> int:
    """Remove values of rules that are off, and return how many. Their rules begin anew when they
    are on again. In the caller's transaction: one that is on again meanwhile stays as it is."""
    off = KeyRule.objects.filter(pk__in=[rule.pk for rule in rules], enabled=False)
    keys = [rule.pk for rule in off.select_for_update(no_key=True)]
    (removed,) = run(_REMOVE(rules=keys, limit=limit))
    KeyRule.objects.filter(pk__in=keys).exclude(inbound_before=None, outbound_before=None).update(
        inbound_before=None, outbound_before=None
    )
    return len(removed)


def _gaps(after: int, ids: Sequence[int], horizon: _Horizon) -> Iterable[Gap]:
    for before, key in zip([after, *ids], ids, strict=False):
        if key > before + 1:
            yield before + 1, key - 1, horizon.next, horizon.now
