"""Calls to operators: what they are about, claimed, and ended. Who gets them, flows decide."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from msh.protocol.attempt import AttemptOutcome
from msh.protocol.kinds import EARLY_WARNING
from msh.protocol.lane import LaneState
from msh.store.engine import Statement, Write, run

from .models import OperatorNotice

LIMIT = 1000
"""Incidents of each round."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What operators are called about: an incident at the beginning of its next turn, after
    `turns`, or a late message. `passed`: it came and went in a maintenance window. `beside`: kinds
    of the other incidents about the same message that are new, or are called about again, too."""

    incident_id: int | None
    partner_id: int
    kind: str
    message_id: str
    detail: str
    at: datetime
    reason: str = ""
    turns: int = 0
    passed: bool = False
    beside: Sequence[str] = ()

    @property
    def cause(self) -> str:
        if self.incident_id is None:
            return f"late:{self.partner_id}:{self.message_id}"
        return f"incident:{self.incident_id}" + (f":{self.turns}" if self.turns else "")


@dataclass(frozen=True, slots=True)
class End:
    """A new notice that something is over, and the recipient who gets it."""

    id: int
    recipient_id: int


# What the partner answered last is said with an incident, unless its detail is just that.
_ANSWER = """
    LEFT JOIN LATERAL (
        SELECT NULLIF(NULLIF(attempt.detail, ''), called.detail) AS detail, attempt.reason
        FROM msh_outboundlink link
        JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
        JOIN msh_attempt attempt ON attempt.message_id = flying.id
        WHERE link.partner_id = called.partner_id AND called.direction = 'out'
          AND flying.message_id = called.message_id AND attempt.ended_at IS NOT NULL
        ORDER BY attempt.number DESC LIMIT 1) answer ON true
"""
# An incident that somebody is writing is announced the next time: nobody waits for this. That of a
# partner in a maintenance window is announced after it, if it is still open then.
_ANNOUNCE = Statement(
    f"""
    WITH fresh AS (
        SELECT id FROM msh_incident WHERE NOT announced AND partner_id <> ALL(%(quiet)s::bigint[])
        ORDER BY id LIMIT {LIMIT} FOR NO KEY UPDATE SKIP LOCKED),
    called AS (
        UPDATE msh_incident incident SET announced = true FROM fresh WHERE incident.id = fresh.id
        RETURNING incident.id, partner_id, direction, kind, message_id, incident.detail,
                  incident.reason, opened_at, resolved_at)
    SELECT called.id AS incident_id, called.partner_id, called.kind, called.message_id,
           concat_ws('; last answer: ', called.detail, answer.detail) AS detail,
           COALESCE(answer.reason, called.reason) AS reason, called.opened_at AS at, 0 AS turns,
           called.resolved_at IS NOT NULL AND EXISTS (
               SELECT FROM msh_maintenancewindow held
               WHERE held.partner_id = called.partner_id AND held.state IN ('running', 'ended')
                 AND held.starts_at <= called.opened_at
                 AND called.opened_at < COALESCE(held.ended_at, 'infinity')) AS passed,
           -- As they were before this statement: those that it announces are among them.
           ARRAY(
               SELECT other.kind FROM msh_incident other
               WHERE other.partner_id = called.partner_id AND other.direction = called.direction
                 AND other.message_id = called.message_id AND called.message_id <> ''
                 AND other.resolved_at IS NULL AND NOT other.announced
                 AND other.id <> called.id) AS beside
    FROM called {_ANSWER}
    ORDER BY called.id
""",
    Subject,
)
# Nobody was assigned since the last turn. One that is assigned stays due: if it is given back, the
# next step is called at once. What was said beside another one is called about when that is not
# called about any more.
_DUE_AGAIN = Statement(
    f"""
    WITH called AS (
        SELECT id, partner_id, direction, kind, message_id, detail, reason, opened_at, turns
        FROM msh_incident
        WHERE next_turn <= statement_timestamp() AND resolved_at IS NULL AND assigned_to = ''
          AND partner_id <> ALL(%(quiet)s::bigint[])
        ORDER BY next_turn LIMIT {LIMIT} FOR NO KEY UPDATE SKIP LOCKED)
    SELECT called.id AS incident_id, called.partner_id, called.kind, called.message_id,
           concat_ws('; last answer: ', called.detail, answer.detail) AS detail,
           COALESCE(answer.reason, called.reason) AS reason, called.opened_at AS at,
           called.turns, false AS passed,
           ARRAY(
               SELECT other.kind FROM msh_incident other
               WHERE other.partner_id = called.partner_id AND other.direction = called.direction
                 AND other.message_id = called.message_id AND called.message_id <> ''
                 AND other.resolved_at IS NULL AND other.assigned_to = ''
                 AND other.next_turn IS NOT NULL AND other.id <> called.id) AS beside
    FROM called {_ANSWER}
    ORDER BY called.id
""",
    Subject,
)
_FORGET_RESOLVED = Write("""
    UPDATE msh_incident SET next_turn = NULL WHERE id IN (
        SELECT id FROM msh_incident
        WHERE next_turn <= statement_timestamp() AND resolved_at IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED)
""")
_SET_TURNS = Write("""
    UPDATE msh_incident SET turns = turns + 1, next_turn = statement_timestamp() + made.wait
    FROM unnest(%(keys)s::bigint[], %(waits)s::interval[]) made(key, wait)
    WHERE id = made.key
""")
# A message is late while retries remain: when it has spent the retry that its agreement names,
# without one half of them; and at the first answer that says that the same bytes will hardly be
# taken (D35). Terms that cannot be read warn of nothing, and hinder no other warning.
_LATE = Statement(
    """
    SELECT NULL::bigint AS incident_id, link.partner_id, %(kind)s AS kind, flying.message_id,
           'no Acknowledgement yet, ' || link.retries_spent || ' of '
               || terms.retries || ' retries spent; last answer: '
               || COALESCE(NULLIF(answer.detail, ''), 'none') AS detail,
           COALESCE(answer.reason, '') AS reason,
           statement_timestamp() AS at
    FROM msh_outboundlink link JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        SELECT outcome, detail, reason FROM msh_attempt
        WHERE message_id = flying.id AND ended_at IS NOT NULL
        ORDER BY number DESC LIMIT 1) answer ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN jsonb_typeof(flying.terms -> 'retries') = 'number'
                    THEN (flying.terms ->> 'retries')::numeric END AS retries,
               CASE WHEN jsonb_typeof(flying.terms -> 'early_warning') = 'number'
                    THEN (flying.terms ->> 'early_warning')::numeric END AS early_warning) terms
    WHERE link.state = ANY(%(states)s) AND link.retries_spent < terms.retries
      AND link.partner_id <> ALL(%(quiet)s::bigint[])
      AND (answer.outcome = %(doubted)s
           OR (link.retries_spent > 0
               AND link.retries_spent >= COALESCE(NULLIF(terms.early_warning, 0),
                                                  div(terms.retries + 1, 2))))
      AND NOT EXISTS (
        SELECT FROM msh_operatornotice earlier
        WHERE earlier.cause = 'late:' || link.partner_id || ':' || flying.message_id)
    ORDER BY link.id
""",
    Subject,
)
# Whoever was called is told that it is over: the incident is resolved, or the message is not under
# way any more. What was never sent is not.
_OVER = Statement(
    f"""
    WITH over AS (
        SELECT notice.id FROM msh_operatornotice notice
        LEFT JOIN msh_incident incident ON incident.id = notice.incident_id
        WHERE notice.wants_end AND notice.sent_at IS NOT NULL
          AND CASE WHEN notice.incident_id IS NOT NULL THEN incident.resolved_at IS NOT NULL
              ELSE NOT EXISTS (
                SELECT FROM msh_outboundlink link
                JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
                WHERE link.partner_id = notice.partner_id
                  AND flying.message_id = notice.message_id) END
        ORDER BY notice.id LIMIT {LIMIT} FOR NO KEY UPDATE OF notice SKIP LOCKED),
    ended AS (
        UPDATE msh_operatornotice notice SET wants_end = false FROM over WHERE notice.id = over.id
        RETURNING notice.*)
    INSERT INTO msh_operatornotice
        (cause, channel, "to", recipient_id, partner_id, incident_id, kind, severity, message_id,
         detail, is_end, at, due)
    SELECT DISTINCT ON (ended.channel, ended."to", COALESCE('i' || ended.incident_id, ended.cause))
           'over:' || ended.id, ended.channel, ended."to", ended.recipient_id, ended.partner_id,
           ended.incident_id, ended.kind, ended.severity, ended.message_id,
           COALESCE(NULLIF(concat_ws(': ', NULLIF(incident.resolved_by, ''), incident.resolution),
                           ''), 'the message is not under way any more'),
           true, statement_timestamp(), statement_timestamp()
    FROM ended LEFT JOIN msh_incident incident ON incident.id = ended.incident_id
    WHERE ended.recipient_id IS NOT NULL
    ON CONFLICT (cause, channel, "to") DO NOTHING
    RETURNING id, recipient_id
""",
    End,
)
_UNDER_WAY = [LaneState.WAITING, LaneState.TRANSIENT]


def take_subjects(quiet: Collection[int]) -> list[Subject]:
    """Return what is to be announced now, or called about again, in the caller's transaction;
    nothing that is about partners in a maintenance window (`quiet`)."""
    run(_FORGET_RESOLVED())
    fresh, again = run(_ANNOUNCE(quiet=list(quiet)), _DUE_AGAIN(quiet=list(quiet)))
    return [*fresh, *again]


def late_messages(quiet: Collection[int]) -> list[Subject]:
    """Return the messages that are late and of which nobody was warned."""
    which = {"kind": EARLY_WARNING, "states": _UNDER_WAY, "doubted": AttemptOutcome.DOUBTED}
    (found,) = run(_LATE(quiet=list(quiet), **which))
    return found


def keep_notices(notices: Iterable[OperatorNotice]) -> None:
    """Store these notices, each once for its cause and recipient."""
    OperatorNotice.objects.bulk_create(notices, batch_size=1000, ignore_conflicts=True)


def set_turns(turns: Sequence[tuple[int, timedelta | None]]) -> None:
    """Record that these incidents have had one more turn, and when the next one comes; None: there
    is none."""
    if turns:
        run(_SET_TURNS(keys=[key for key, _ in turns], waits=[wait for _, wait in turns]))


def notice_ends() -> list[End]:
    """Return whom to notify from now on that something is over."""
    (made,) = run(_OVER())
    return made


def hold_back(keys: Collection[int], until: datetime) -> None:
    """Keep them for the digest that is sent when the quiet hours end."""
    OperatorNotice.objects.filter(pk__in=keys).update(held=True, due=until)


def drop_unreachable() -> None:
    """Give up what was for a recipient who is gone or switched off."""
    unsent = OperatorNotice.objects.filter(sent_at=None, given_up=False)
    nobody = Q(recipient=None) & ~Q(to="") | Q(recipient__enabled=False)
    keys = list(unsent.filter(nobody).values_list("pk", flat=True)[:LIMIT])
    if keys:
        why = "the recipient was removed or switched off"
        unsent.filter(pk__in=keys).update(given_up=True, wants_end=False, error=why)


@dataclass(frozen=True, slots=True)
class Due:
    """The recipient for whom something is due; `to` is empty for those whom the settings name."""

    channel: str
    to: str = ""


def due_recipients() -> list[Due]:
    due = OperatorNotice.objects.filter(sent_at=None, given_up=False, due__lte=Now())
    return [Due(*one) for one in due.order_by().values_list("channel", "to").distinct()]


def claim_notices(
    whose: Due, limit: int, lease: timedelta, quiet: Collection[int] = ()
) -> list[OperatorNotice]:
    """Claim the notices that are due, the oldest first, in the caller's transaction. What is not
    ended within `lease` is due again. About `quiet` partners only that something is over is due."""
    due = OperatorNotice.objects.filter(
        channel=whose.channel, to=whose.to, sent_at=None, given_up=False, due__lte=Now()
    ).filter(~Q(partner__in=quiet) | Q(is_end=True))
    locked = due.order_by("due").select_for_update(skip_locked=True, no_key=True)
    keys = list(locked.values_list("pk", flat=True)[:limit])
    OperatorNotice.objects.filter(pk__in=keys).update(due=Now() + lease, tries=F("tries") + 1)
    claimed = OperatorNotice.objects.filter(pk__in=keys).order_by("pk")
    return list(claimed.select_related("partner__outbound_link", "incident", "recipient"))


def put_back(notices: Sequence[OperatorNotice]) -> None:
    """Make them due at once: they were claimed and not tried."""
    keys = [notice.pk for notice in notices]
    OperatorNotice.objects.filter(pk__in=keys).update(due=Now(), tries=F("tries") - 1)


def mark_sent(notices: Sequence[OperatorNotice]) -> None:
    keys = [notice.pk for notice in notices]
    OperatorNotice.objects.filter(pk__in=keys).update(sent_at=Now(), error="")


def mark_failed(
    notice: OperatorNotice, why: str, wait: timedelta, held_until: datetime | None, *, give_up: bool
) -> None:
    """Record that it failed. It is tried again after `wait`, or with what was held back when the
    quiet hours end."""
    values = {"error": why, "due": held_until or Now() + wait, "given_up": give_up}
    values["held"] = notice.held or held_until is not None
    values["wants_end"] = notice.wants_end and not give_up
    OperatorNotice.objects.filter(pk=notice.pk).update(**values)


def drop(notices: Sequence[OperatorNotice], why: str) -> None:
    """Give them up: they are not sent any more."""
    keys = [notice.pk for notice in notices]
    OperatorNotice.objects.filter(pk__in=keys).update(given_up=True, wants_end=False, error=why)
