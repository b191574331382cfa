"""One alert about a message and the conversation that it stops."""

import pytest

from msh.alerts.rules.beside import is_said_beside
from msh.protocol.kinds import IncidentKind
from msh.protocol.severity import Severity, severity_of

STOPPED = IncidentKind.CONVERSATION_STOPPED
WORSE = IncidentKind.ERROR_RECEIVED
LIGHTER = IncidentKind.MESSAGE_EXPIRED
ALONE = IncidentKind.WENT_AHEAD_ALONE


def test_the_examples_are_what_they_are_called() -> None:
    assert severity_of(WORSE) == severity_of(STOPPED) == Severity.CRITICAL
    assert severity_of(LIGHTER) == Severity.WARNING


@pytest.mark.parametrize(
    ("kind", "beside", "said"),
    [
        (STOPPED, {WORSE}, True),
        (STOPPED, {LIGHTER}, False),
        (STOPPED, {LIGHTER, WORSE}, True),
        (STOPPED, set(), False),
        (LIGHTER, {STOPPED}, True),
        (LIGHTER, {WORSE}, False),
        (WORSE, {STOPPED}, False),
        (ALONE, {STOPPED}, False),
    ],
)
def test_the_worse_of_the_two_is_alerted(kind: str, beside: set[str], said: bool) -> None:
    assert is_said_beside(kind, beside) is said
