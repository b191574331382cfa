"""Who is called about which incident, at which step, and for how long that goes on."""

from datetime import UTC, datetime, time, timedelta

import pytest

from msh.alerts.rules.escalation import ROUNDS, Rule, turn
from msh.alerts.rules.quiet import QuietHours
from msh.protocol.kinds import EARLY_WARNING, IncidentKind
from msh.protocol.severity import Severity, severity_of

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
FIVE, TEN = timedelta(minutes=5), timedelta(minutes=10)
ACME, EMCA = 1, 2


@pytest.mark.parametrize(
    ("rule", "severity", "partner", "concerned"),
    [
        (Rule(1), INFO, ACME, True),
        (Rule(1, WARNING), INFO, ACME, False),
        (Rule(1, WARNING), WARNING, ACME, True),
        (Rule(1, WARNING), CRITICAL, ACME, True),
        (Rule(1, CRITICAL), WARNING, ACME, False),
        (Rule(1, partners=frozenset({ACME})), INFO, ACME, True),
        (Rule(1, partners=frozenset({ACME})), CRITICAL, EMCA, False),
        (Rule(1, CRITICAL, frozenset({ACME, EMCA})), CRITICAL, EMCA, True),
    ],
)
def test_a_recipient_is_called_by_severity_and_partner(
    rule: Rule, severity: Severity, partner: int, concerned: bool
) -> None:
    assert rule.concerns(severity, partner) == concerned


FIRST, BESIDE = Rule(1, wait=TEN), Rule(2, wait=FIVE)
SECOND, LAST = Rule(3, step=2, wait=TEN), Rule(4, step=7)
ONLY_CRITICAL = Rule(5, CRITICAL, step=3, wait=TEN)


@pytest.mark.parametrize(
    ("rules", "made", "called", "next_after"),
    [
        ([], 0, (), None),
        ([Rule(1)], 0, (Rule(1),), None),
        ([FIRST], 0, (FIRST,), TEN),
        ([FIRST], 1, (FIRST,), TEN),
        ([FIRST], ROUNDS - 1, (FIRST,), None),
        ([FIRST], ROUNDS, (), None),
        ([FIRST, BESIDE], 0, (FIRST, BESIDE), FIVE),
        ([SECOND, FIRST], 0, (FIRST,), TEN),
        ([SECOND, FIRST], 1, (SECOND,), TEN),
        ([SECOND, FIRST], 2, (FIRST,), TEN),
        ([SECOND, FIRST], 2 * ROUNDS - 1, (SECOND,), None),
        ([SECOND, FIRST], 2 * ROUNDS, (), None),
        ([FIRST, LAST], 1, (LAST,), None),
        ([SECOND], 0, (SECOND,), TEN),  # nobody else: not left uncalled
        ([FIRST, SECOND, ONLY_CRITICAL], 2, (FIRST,), TEN),
    ],
)
def test_the_next_step_is_called_while_nobody_has_taken_the_incident(
    rules: list[Rule], made: int, called: tuple[Rule, ...], next_after: timedelta | None
) -> None:
    found = turn(rules, WARNING, ACME, made)
    assert (found.called, found.next_after) == (called, next_after)


NIGHT = QuietHours("UTC", time(22), time(7))
MIDNIGHT = datetime(2026, 11, 23, tzinfo=UTC)
MORNING = MIDNIGHT + timedelta(hours=7)


@pytest.mark.parametrize(
    ("rule", "severity", "now", "held"),
    [
        (Rule(1), INFO, MIDNIGHT, None),
        (Rule(1, quiet=NIGHT), WARNING, MIDNIGHT, MORNING),
        (Rule(1, quiet=NIGHT), WARNING, MORNING, None),
        (Rule(1, quiet=NIGHT), CRITICAL, MIDNIGHT, None),
        (Rule(1, quiet=NIGHT, critical_through=False), CRITICAL, MIDNIGHT, MORNING),
    ],
)
def test_calls_are_held_back_in_quiet_hours(
    rule: Rule, severity: Severity, now: datetime, held: datetime | None
) -> None:
    assert rule.held_until(severity, now) == held


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (IncidentKind.RETRIES_SPENT, CRITICAL),
        (IncidentKind.STUCK, CRITICAL),
        (IncidentKind.DELIVERY_IN_DOUBT, CRITICAL),
        (IncidentKind.SEQUENCE_GAP, WARNING),
        (IncidentKind.BACKLOG, WARNING),
        (IncidentKind.RETENTION_TOO_SHORT, INFO),
        (EARLY_WARNING, WARNING),
        ("a kind of a later version", CRITICAL),
    ],
)
def test_severity(kind: str, severity: Severity) -> None:
    assert severity_of(kind) is severity
