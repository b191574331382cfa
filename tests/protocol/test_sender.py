"""What the Sender's table does not say: Errors while suspended, and a wait that is asked for."""

from dataclasses import replace

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR, InFlight, Lane, LaneState
from msh.protocol.reason import Reason
from msh.protocol.sender import step
from msh.protocol.sender.answers import wait_asked_for

from .tables.form import NOW
from .tables.sender import GAP, lane_in

RESYNCHRONISE = IncidentKind.RESYNCHRONISE


@pytest.mark.requirement("000-029")
@pytest.mark.parametrize(
    ("kind", "then"),
    [
        (
            IncidentKind.REFUSED_BY_PEER,
            [do.ExplainSuspension("m7", "SequenceGap: 5 missing", Reason.NUMBERS)],
        ),
        (
            OPERATOR,
            [do.OpenIncident(RESYNCHRONISE, "m7", "SequenceGap: 5 missing", Reason.NUMBERS)],
        ),
        (RESYNCHRONISE, []),
        (IncidentKind.ERROR_RECEIVED, []),
    ],
)
def test_an_error_about_numbers_while_suspended_says_why_if_nobody_else_has(
    kind: str, then: list[do.SenderEffect]
) -> None:
    lane = replace(lane_in("suspended"), suspended_for=kind)
    noted = do.Note("m7", "Error SequenceGap: 5 missing")
    assert step(lane, on.SequenceErrorReceived("m7", GAP), now=NOW) == (lane, (noted, *then))


def test_only_the_latest_copy_may_ask_for_a_wait() -> None:
    """D54."""
    terms = Terms(60, 3, 120)
    lane = Lane(LaneState.WAITING, 8, in_flight=InFlight("m7", 7, terms, attempt=2))
    asked = on.AttemptFailed("m7", 2, "503", retry_after=5.0, asked_to_wait=True)
    assert wait_asked_for(lane, asked) == on.TransientErrorReceived("m7", 120, "503")
    longer = replace(asked, retry_after=300.4)
    assert wait_asked_for(lane, longer) == on.TransientErrorReceived("m7", 301, "503")
    for event in (
        replace(asked, attempt=1),
        replace(asked, message_id="m6"),
        replace(asked, asked_to_wait=False),
    ):
        assert wait_asked_for(lane, event) is event
    assert wait_asked_for(replace(lane, unsent=True), asked) is asked
    assert wait_asked_for(replace(lane, in_flight=None), asked) is asked
