"""Rows of the table: the copies of a message, its deadlines, the ends of its life."""

from dataclasses import replace

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import DeadlinePassed, Expired, FlightState, FlightTerms, ProbeClaimed
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind
from msh.protocol.vocabulary import Severity

from .flights import (
    GONE,
    HOLDS,
    NOW,
    READIES,
    SAME,
    TERMS,
    Row,
    after,
    becomes,
    changed,
    fails,
    fails_held,
    holds,
    only,
)

NEW = changed(attempt=0, copies=0, expires_at=None, persists_until=None)
SPENT = changed(attempt=4, copies=4)
SILENCE = "no Acknowledgement after 4 attempts"
OF_TWO = "no Acknowledgement after 2 attempts"
WARNS = changed(terms=replace(TERMS, early_warning=2))
EARLY = replace(WARNS, copies=0, attempt=0)
EXPIRED = changed(expires_at=NOW)
FORBIDDEN = changed(persists_until=NOW)
FOR_EVER = FlightTerms(timeout=20, retries=3, retry_interval=20)
LATE = "not acknowledged by 2026-03-01 12:00:00 UTC"
REFUSED = IncidentKind.REFUSED_BY_PEER
BUDGET = IncidentKind.RETRIES_SPENT
PROBED = do.Note("m7", "probe: one copy, the partner stays suspended")
DEPARTED = {"state": FlightState.WAITING, "under_way": True, "due": after(30 + 20)}

COPIES = (
    Row(
        "attempt claimed by a worker",
        on.AttemptClaimed(http_deadline=30),
        only(ready=becomes(attempt=3, copies=3, **DEPARTED), **GONE),
        proves=("EB-080",),
    ),
    Row(
        "first attempt claimed: the message is composed",
        on.AttemptClaimed(http_deadline=30),
        only(
            ready=becomes(
                attempt=1, copies=1, expires_at=after(600), persists_until=after(900), **DEPARTED
            ),
            **GONE,
        ),
        flight=NEW,
        proves=("EB-083", "EB-084"),
    ),
    Row(
        "first attempt claimed, the application asked for a TimeToLive",
        on.AttemptClaimed(http_deadline=30),
        only(ready=becomes(attempt=1, copies=1, persists_until=after(900), **DEPARTED), **GONE),
        flight=replace(NEW, expires_at=after(7)),
    ),
    Row(
        "first attempt claimed, nothing agreed on its life",
        on.AttemptClaimed(http_deadline=30),
        only(ready=becomes(attempt=1, copies=1, **DEPARTED), **GONE),
        flight=replace(NEW, terms=FOR_EVER),
    ),
    Row(
        "attempt claimed, the retry that warns",
        on.AttemptClaimed(http_deadline=30),
        only(
            ready=becomes(
                do.NotifyFromParty(
                    PartyEventKind.DELAYED, "m7", "retry 2 of 3: no Acknowledgement yet"
                ),
                attempt=3,
                copies=3,
                **DEPARTED,
            ),
            **GONE,
        ),
        flight=WARNS,
    ),
    Row(
        "first attempt claimed, no early warning agreed",
        on.AttemptClaimed(http_deadline=30),
        only(ready=becomes(attempt=3, copies=1, **DEPARTED), **GONE),
        flight=changed(copies=0),
    ),
    Row(
        "attempt claimed after TimeToLive",
        on.AttemptClaimed(http_deadline=30),
        only(**GONE),
        flight=EXPIRED,
        proves=("EB-083",),
    ),
    Row(
        "attempt claimed after PersistDuration",
        on.AttemptClaimed(http_deadline=30),
        only(**GONE),
        flight=FORBIDDEN,
        proves=("EB-084",),
    ),
    Row(
        "probe claimed",
        ProbeClaimed(http_deadline=30),
        only(ready=becomes(PROBED, attempt=3, **DEPARTED), **GONE),
        proves=("EB-091",),
    ),
    Row(
        "probe claimed after PersistDuration",
        ProbeClaimed(http_deadline=30),
        only(**GONE),
        flight=FORBIDDEN,
        proves=("EB-084",),
    ),
    Row(
        "attempt transmitted",
        on.AttemptTransmitted("m7", 2),
        only(
            ready=becomes(carried=True, reached=True),
            waiting=becomes(carried=True, reached=True, due=after(20)),
            held=becomes(carried=True, reached=True),
            **GONE,
        ),
        proves=("EB-071", "EB-080"),
    ),
    Row(
        "attempt failed in transport",
        on.AttemptFailed("m7", 2, detail="connection refused", unreachable=True),
        only(
            ready=becomes(unreached=1),
            waiting=becomes(unreached=1, due=after(20)),
            held=becomes(unreached=1),
            **GONE,
        ),
        proves=("EB-089",),
    ),
    Row(
        "attempt failed, the partner asks for a longer wait",
        on.AttemptFailed("m7", 2, detail="503", retry_after=50, unreachable=True),
        only(
            ready=becomes(unreached=1),
            waiting=becomes(unreached=1, due=after(50)),
            held=becomes(unreached=1),
            **GONE,
        ),
        proves=("EB-089", "EB-090"),
    ),
    Row(
        "attempt failed, the partner asks for a wait above the cap",
        on.AttemptFailed("m7", 2, detail="503", retry_after=5000, unreachable=True),
        only(
            ready=becomes(unreached=1),
            waiting=becomes(unreached=1, due=after(100)),
            held=becomes(unreached=1),
            **GONE,
        ),
        proves=("EB-089",),
    ),
    Row(
        "attempt failed, and the partner may be set up wrongly",
        on.AttemptFailed("m7", 2, detail="404", doubted=True),
        only(
            ready=becomes(do.Note("m7", "404", EARLY_WARNING), reached=True),
            waiting=becomes(do.Note("m7", "404", EARLY_WARNING), reached=True, due=after(20)),
            held=becomes(do.Note("m7", "404", EARLY_WARNING), reached=True),
            **GONE,
        ),
        proves=("EB-089",),
    ),
    Row(
        "attempt refused for good",
        on.AttemptRefused("m7", 2, detail="400: not XML"),
        only(
            ready=fails(REFUSED, "400: not XML"),
            waiting=fails(REFUSED, "400: not XML"),
            held=fails_held(REFUSED, "400: not XML"),
            **GONE,
        ),
        proves=("EB-067", "EB-089"),
    ),
    Row(
        "deadline passed, retries left",
        DeadlinePassed(),
        only(waiting=becomes(do.Transmit(), **READIES), **GONE),
        proves=("EB-080",),
    ),
    Row("deadline not passed yet", DeadlinePassed(), only(waiting=SAME, **GONE), due=1),
    Row(
        "deadline farther away than any wait",
        DeadlinePassed(),
        only(waiting=becomes(do.Transmit(), **READIES), **GONE),
        due=201,
    ),
    Row(
        "deadline passed, none left, no copy transmitted",
        DeadlinePassed(),
        only(waiting=fails(BUDGET, SILENCE), **GONE),
        flight=replace(SPENT, reached=True),
        proves=("EB-082",),
    ),
    Row(
        "deadline passed, none left, a copy transmitted",
        DeadlinePassed(failures=3),
        only(waiting=fails(BUDGET, SILENCE, severity=Severity.WARNING), **GONE),
        flight=replace(SPENT, carried=True, reached=True, unreached=3),
        proves=("EB-082",),
    ),
    Row(
        "deadline passed, none left, a worker died with each copy",
        DeadlinePassed(failures=8),
        only(waiting=fails(BUDGET, SILENCE), **GONE),
        flight=SPENT,
    ),
    Row(
        "deadline passed, none left, other messages came through",
        DeadlinePassed(failures=3),
        only(waiting=fails(BUDGET, SILENCE), **GONE),
        flight=replace(SPENT, unreached=4),
        proves=("EB-082", "EB-090"),
    ),
    Row(
        "deadline passed, none left, nothing came through",
        DeadlinePassed(failures=4),
        only(
            waiting=becomes(
                do.ReportUnreachable("m7", "4 attempts in a row were not answered"),
                do.Transmit(),
                copies=0,
                unreached=0,
                **READIES,
            ),
            **GONE,
        ),
        flight=replace(SPENT, unreached=4),
        proves=("EB-091",),
    ),
    Row(
        "deadline passed, none left, an operator decides",
        DeadlinePassed(),
        only(waiting=holds(SILENCE), **GONE),
        flight=replace(SPENT, on_silence=HOLDS.on_silence, reached=True),
        proves=("EB-082",),
    ),
    Row(
        "deadline passed after TimeToLive",
        DeadlinePassed(),
        only(waiting=fails(IncidentKind.MESSAGE_EXPIRED, LATE, "TimeToLiveExpired"), **GONE),
        flight=EXPIRED,
        proves=("EB-083",),
    ),
    Row(
        "deadline passed after PersistDuration",
        DeadlinePassed(),
        only(waiting=fails(BUDGET, f"past its PersistDuration: {OF_TWO}"), **GONE),
        flight=FORBIDDEN,
        proves=("EB-084",),
    ),
    Row(
        "TimeToLive over",
        Expired(),
        only(
            ready=fails(IncidentKind.MESSAGE_EXPIRED, LATE, "TimeToLiveExpired"),
            waiting=fails(IncidentKind.MESSAGE_EXPIRED, LATE, "TimeToLiveExpired"),
            held=fails_held(IncidentKind.MESSAGE_EXPIRED, LATE, "TimeToLiveExpired"),
            **GONE,
        ),
        flight=EXPIRED,
        proves=("EB-083",),
    ),
    Row(
        "TimeToLive not over yet",
        Expired(),
        only(ready=SAME, waiting=SAME, held=SAME, **GONE),
    ),
    Row(
        "no TimeToLive, no PersistDuration",
        Expired(),
        only(ready=SAME, waiting=SAME, held=SAME, **GONE),
        flight=changed(expires_at=None, persists_until=None),
    ),
    Row(
        "PersistDuration over",
        Expired(),
        only(
            ready=fails(BUDGET, f"past its PersistDuration: {OF_TWO}"),
            waiting=SAME,
            held=SAME,
            **GONE,
        ),
        flight=FORBIDDEN,
        proves=("EB-084",),
    ),
    Row(
        "PersistDuration over, an operator decides",
        Expired(),
        only(ready=holds(f"past its PersistDuration: {OF_TWO}"), waiting=SAME, held=SAME, **GONE),
        flight=replace(FORBIDDEN, on_silence=HOLDS.on_silence),
    ),
)
