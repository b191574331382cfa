"""Rows of the table: what an operator may do (EB-092)."""

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import FlightState
from msh.protocol.kinds import PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR

from .flights import LANDS, NOW, NUMBERED, READIES, Expected, Row, becomes, changed, only

RESUMED = becomes(do.ResolveIncidents(), do.Transmit(), copies=0, unreached=0, **READIES)
HOLD = becomes(do.PollLane(), state=FlightState.HELD, under_way=False, due=None, held_for=OPERATOR)
SOME = changed(copies=3, unreached=2)
EXPIRED = changed(expires_at=NOW, number=4)
FORBIDDEN = changed(persists_until=NOW, number=4)


def cancelled(verdict: Verdict, *, failed: bool = False) -> dict[str, Expected]:
    effects = (
        do.Cancel("m7", verdict),
        do.NotifyFromParty(PartyEventKind.CANCELLED, "m7", verdict.value),
    )
    lands = becomes(*effects, do.PollLane(), state=FlightState.CANCELLED, **LANDS)
    leaves = becomes(do.ResolveIncidents(), *effects, state=FlightState.CANCELLED, **LANDS)
    cells = {"ready": lands, "waiting": lands, "held": leaves}
    return only(**cells, **({"failed": leaves} if failed else {}))


OPERATORS = (
    Row("operator: suspend", on.OperatorSuspended(), only(ready=HOLD, waiting=HOLD)),
    Row("operator: resume", on.OperatorResumed(), only(held=RESUMED), flight=SOME),
    Row(
        "operator: resume, in a conversation that stands still",
        on.OperatorResumed(),
        only(held=RESUMED, failed=RESUMED),
        flight=NUMBERED,
        proves=("EB-124",),
    ),
    Row(
        "operator: reset retries",
        on.RetriesReset(),
        only(
            ready=becomes(copies=0, unreached=0),
            waiting=becomes(copies=1, unreached=0),
            held=RESUMED,
        ),
        flight=SOME,
    ),
    Row(
        "operator: send now",
        on.SendNowRequested(),
        only(
            ready=becomes(do.Transmit()),
            waiting=becomes(do.Transmit(), copies=1, **READIES),
            held=becomes(do.ResolveIncidents(), do.Transmit(), copies=1, **READIES),
        ),
    ),
    Row(
        "operator: send now, only a probe was sent",
        on.SendNowRequested(),
        only(
            ready=becomes(do.Transmit()),
            waiting=becomes(do.Transmit(), **READIES),
            held=becomes(do.ResolveIncidents(), do.Transmit(), **READIES),
        ),
        flight=changed(copies=0),
    ),
    *(
        Row(f"operator: {name} after {end}", event, only(), flight, proves=(proved,))
        for name, event in (
            ("resume", on.OperatorResumed()),
            ("reset retries", on.RetriesReset()),
            ("send now", on.SendNowRequested()),
        )
        for end, flight, proved in (
            ("TimeToLive", EXPIRED, "EB-083"),
            ("PersistDuration", FORBIDDEN, "EB-084"),
        )
    ),
    Row(
        "operator: cancel, received",
        on.MessageCancelled(Verdict.RECEIVED),
        cancelled(Verdict.RECEIVED),
    ),
    Row(
        "operator: cancel, unknown",
        on.MessageCancelled(Verdict.UNKNOWN),
        cancelled(Verdict.UNKNOWN),
    ),
    Row(
        "operator: cancel, not received, proven",
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        cancelled(Verdict.NOT_RECEIVED),
    ),
    Row(
        "operator: cancel, not received, not proven",
        on.MessageCancelled(Verdict.NOT_RECEIVED),
        only(),
    ),
    Row(
        "operator: cancel, in a conversation that stands still",
        on.MessageCancelled(Verdict.UNKNOWN),
        cancelled(Verdict.UNKNOWN, failed=True),
        flight=NUMBERED,
        proves=("EB-124",),
    ),
)
