"""Rows of the table: the queue, the copies of a message, the deadlines."""

from dataclasses import replace

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind
from msh.protocol.lane import InFlight, LaneState

from .lanes import (
    SAME,
    TERMS,
    TRANSMITS,
    Row,
    after,
    becomes,
    everywhere,
    flying,
    noted,
    only,
    suspends,
)

BUDGET_SPENT = flying(retries_spent=3, transient_since=after(-600))
PROBE = flying(retries_spent=4)
WARNS = replace(TERMS, early_warning=2)
CEILING = "1 TransientErrors since 2026-03-01 11:50:00 UTC"

ATTEMPTS = (
    Row("message submitted", on.MessageSubmitted(), everywhere(SAME), proves=("000-017",)),
    Row(
        "lane polled, queue not empty",
        on.LanePolled("m8", TERMS),
        only(
            idle=becomes(
                do.PutInFlight("m8", 8, 2, TERMS),
                do.Transmit(),
                in_flight=InFlight("m8", 8, TERMS),
                next_number=9,
                **TRANSMITS,
            )
        ),
        proves=("000-008", "000-017", "000-042", "000-043"),
    ),
    Row("lane polled, queue empty", on.LanePolled(), only(idle=SAME)),
    Row(
        "lane polled, the head was queued again",
        on.LanePolled("m8", TERMS, attempts=4),
        only(
            idle=becomes(
                do.PutInFlight("m8", 8, 2, TERMS),
                do.Transmit(),
                in_flight=InFlight("m8", 8, TERMS, attempt=4),
                next_number=9,
                **TRANSMITS,
            )
        ),
    ),
    Row(
        "lane polled, the head is rewound",
        on.LanePolled("m5", TERMS, on.Numbered(5, 1), attempts=4),
        only(
            idle=becomes(
                do.PutInFlight("m5", 5, 1, TERMS),
                do.Transmit(),
                in_flight=InFlight("m5", 5, TERMS, attempt=4),
                **TRANSMITS,
            )
        ),
    ),
    Row(
        "a probe is due",
        on.ProbeDue(),
        only(
            suspended=becomes(
                do.Note("m7", "probe: one more copy, the partner stays suspended"),
                do.Transmit(),
                in_flight=flying(retries_spent=4),
                **TRANSMITS,
            )
        ),
    ),
    Row(
        "deadline of a probe passed",
        on.DeadlinePassed(),
        only(
            waiting=becomes(
                do.OpenIncident(
                    IncidentKind.RETRIES_SPENT, "m7", "no Acknowledgement after 2 attempts"
                ),
                state=LaneState.SUSPENDED,
                due=None,
                unsent=False,
                suspended_for=IncidentKind.RETRIES_SPENT,
            ),
            unsent=SAME,
            promised=SAME,
            transient=becomes(do.Transmit(), **TRANSMITS),
            transient_empty=becomes(do.PollLane(), state=LaneState.IDLE, due=None),
        ),
        flying=PROBE,
    ),
    Row(
        "deadline passed, with the retry that warns",
        on.DeadlinePassed(),
        only(
            waiting=becomes(
                do.NotifyFromParty(
                    PartyEventKind.DELAYED, "m7", "retry 2 of 3: no Acknowledgement yet"
                ),
                do.Transmit(),
                in_flight=flying(retries_spent=2, terms=WARNS),
                **TRANSMITS,
            ),
            unsent=SAME,
            promised=SAME,
            transient=becomes(do.Transmit(), **TRANSMITS),
            transient_empty=becomes(do.PollLane(), state=LaneState.IDLE, due=None),
        ),
        flying=flying(terms=WARNS),
    ),
    Row(
        "attempt claimed by a worker",
        on.AttemptClaimed(http_deadline=30),
        only(
            unsent=becomes(in_flight=flying(attempt=3), due=after(30 + 20), unsent=False),
            promised=becomes(
                in_flight=flying(attempt=3), due=after(30 + 20), unsent=False, promised=False
            ),
            transient=becomes(
                state=LaneState.WAITING, in_flight=flying(attempt=3), due=after(30 + 20)
            ),
        ),
    ),
    Row(
        "attempt claimed before the wait asked for, or the promise, is over",
        on.AttemptClaimed(http_deadline=30),
        only(unsent=becomes(in_flight=flying(attempt=3), due=after(30 + 20), unsent=False)),
        due=1,
        proves=("000-079",),
    ),
    Row(
        "copy promised to one worker",
        on.CopyPromised(),
        only(unsent=becomes(in_flight=flying(attempt=3), due=after(1), promised=True)),
    ),
    Row(
        "promised attempt begun",
        on.AttemptBegun("m7", 2, http_deadline=30),
        noted(promised=becomes(due=after(30 + 20), unsent=False, promised=False)),
    ),
    Row(
        "attempt transmitted",
        on.AttemptTransmitted("m7", 2),
        noted(
            waiting=becomes(due=after(20)),
            promised=becomes(due=after(20), unsent=False, promised=False),
        ),
        proves=("000-024",),
    ),
    Row(
        "first attempt transmitted",
        on.AttemptTransmitted("m7", 1),
        noted(
            waiting=becomes(due=after(60)),
            promised=becomes(due=after(60), unsent=False, promised=False),
        ),
        flying=flying(attempt=1, retries_spent=0),
        proves=("000-021",),
    ),
    Row(
        "attempt failed, may be tried again",
        on.AttemptFailed("m7", 2, detail="connection refused"),
        noted(
            waiting=becomes(due=after(20)),
            promised=becomes(due=after(20), unsent=False, promised=False),
        ),
        proves=("000-065",),
    ),
    Row(
        "attempt failed, and the partner may be set up wrongly",
        on.AttemptFailed("m7", 2, detail="404", doubted=True),
        noted(
            waiting=becomes(do.Note("m7", "404", EARLY_WARNING), due=after(20)),
            unsent=becomes(do.Note("m7", "404", EARLY_WARNING)),
            promised=becomes(
                do.Note("m7", "404", EARLY_WARNING), due=after(20), unsent=False, promised=False
            ),
        ),
    ),
    Row(
        "attempt refused for good",
        on.AttemptRefused("m7", 2, detail="400: not XML"),
        noted(
            waiting=suspends(IncidentKind.REFUSED_BY_PEER, "400: not XML"),
            unsent=suspends(IncidentKind.REFUSED_BY_PEER, "400: not XML"),
            promised=suspends(IncidentKind.REFUSED_BY_PEER, "400: not XML"),
            transient=suspends(IncidentKind.REFUSED_BY_PEER, "400: not XML"),
        ),
        proves=("001-04",),
    ),
    Row(
        "deadline passed, retries left",
        on.DeadlinePassed(),
        only(
            waiting=becomes(do.Transmit(), in_flight=flying(retries_spent=2), **TRANSMITS),
            unsent=SAME,
            promised=SAME,
            transient=becomes(do.Transmit(), **TRANSMITS),
            transient_empty=becomes(do.PollLane(), state=LaneState.IDLE, due=None),
        ),
        proves=("000-025", "000-026", "000-028", "000-081"),
    ),
    Row(
        "deadline passed, none left",
        on.DeadlinePassed(),
        only(
            waiting=suspends(IncidentKind.RETRIES_SPENT, "no Acknowledgement after 2 attempts"),
            unsent=SAME,
            promised=SAME,
            transient=suspends(IncidentKind.TRANSIENT_LIMIT, CEILING),
            transient_empty=becomes(do.PollLane(), state=LaneState.IDLE, due=None),
        ),
        flying=BUDGET_SPENT,
        proves=("000-004", "000-023", "000-031", "000-032"),
    ),
    Row(
        "deadline not passed yet",
        on.DeadlinePassed(),
        only(waiting=SAME, unsent=SAME, promised=SAME, transient=SAME, transient_empty=SAME),
        due=1,
        proves=("000-021", "000-024", "000-079"),
    ),
)
