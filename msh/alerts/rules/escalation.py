"""Escalation: who is called about an incident at once, and who later, as long as nobody has taken
it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msh.protocol.severity import Severity

from .quiet import QuietHours, quiet_until

ROUNDS = 5
"""The number of times that all steps are repeated. After that, everybody who can come has been
called."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of one recipient: about which incidents it is called, and when. `partners` are ids;
    empty is all of them.

    `step`: 1 is called at once, 2 if nobody takes the incident, and so on. `wait`: how long after
    a call of this recipient the next step is called; zero ends it.
    """

    key: int
    at_least: Severity = Severity.INFO
    partners: frozenset[int] = frozenset()
    step: int = 1
    wait: timedelta = timedelta()
    quiet: QuietHours | None = None
    critical_through: bool = True

    def concerns(self, severity: Severity, partner_id: int) -> bool:
        mine = not self.partners or partner_id in self.partners
        return mine and severity.reaches(self.at_least)

    def held_until(self, severity: Severity, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that hold back a call; None if it is sent now."""
        gets_through = severity is Severity.CRITICAL and self.critical_through
        return None if gets_through else self.end_held_until(now)

    def end_held_until(self, now: datetime) -> datetime | None:
        """Return the same as `held_until`, for a call that an incident has ended: it wakes nobody,
        however severe the incident was."""
        return None if self.quiet is None else quiet_until(self.quiet, now)


@dataclass(frozen=True, slots=True)
class Turn:
    """The recipients that are called now, and the time after which the next ones are. None: no
    further ones."""

    called: tuple[Rule, ...] = ()
    next_after: timedelta | None = None


def turn(rules: Iterable[Rule], severity: Severity, partner_id: int, made: int) -> Turn:
    """Return the turn that comes after `made` turns. `made`: how many turns this incident has had,
    so 0 when it opens. After the last step comes the first again, ROUNDS times in all."""
    steps = _steps(rule for rule in rules if rule.concerns(severity, partner_id))
    if made >= ROUNDS * len(steps):
        return Turn()
    called = steps[made % len(steps)]
    waits = [rule.wait for rule in called if rule.wait]
    goes_on = waits and made + 1 < ROUNDS * len(steps)
    return Turn(called, min(waits) if goes_on else None)


def _steps(rules: Iterable[Rule]) -> Sequence[tuple[Rule, ...]]:
    by_step = defaultdict(list)
    for rule in rules:
        by_step[rule.step].append(rule)
    return [tuple(by_step[step]) for step in sorted(by_step)]
