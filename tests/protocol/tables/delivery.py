"""The table of a delivery, the document history (docs/spec/tables.md): rows of events, columns of
its states. A delivery is in its first attempt, one before has failed, and it is due."""

from datetime import timedelta
from itertools import chain

from msh.protocol.delivery import TRANSITIONS, step
from msh.protocol.delivery.events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    CompletionMarked,
    Delivery,
    DeliveryPolled,
    Leave,
    OutcomeKept,
    OutcomeLost,
    ParkRequested,
    Policy,
    RejectionMarked,
    ResolverAnswered,
    ResolverRequested,
    ResolverVerdict,
    Run,
    RunAgainRequested,
    SetAside,
)
from msh.protocol.effects import Note, OpenIncident
from msh.protocol.kinds import DUPLICATE, DeliveryState, IncidentKind, OnFailure

from .form import NOW, SAME, Becomes, Row, Table, becomes

S = DeliveryState
POLICY = Policy(
    doubtful=True,
    lease=30,
    attempts=3,
    retry_interval=60,
    on_failure=OnFailure.BLOCK,
    has_resolver=True,
)
LEASED, LATER = NOW + timedelta(seconds=30), NOW + timedelta(seconds=60)


def becomes_late(event: str, columns: str) -> dict[str, Becomes]:
    """It is noted, in these columns."""
    return {
        column: becomes(Note("", f"{event} came late: already {column}"))
        for column in columns.split()
    }


def incident(kind: IncidentKind, detail: str) -> OpenIncident:
    return OpenIncident(kind, detail=detail)


def doubts(detail: str) -> Becomes:
    opened = incident(IncidentKind.DELIVERY_IN_DOUBT, detail)
    return becomes(opened, state=S.IN_DOUBT, due=None)


def ran_already(column: str, leave: Leave) -> Becomes:
    return becomes(leave, Note("", f"{column} by attempt 1, not run", DUPLICATE), due=None)


OPEN = "processing failed blocked parked in_doubt"
STANDS = "failed blocked parked in_doubt"
AFTER_ALL = "failed blocked parked in_doubt completed rejected"
ENDED = "completed rejected"
AGAIN = {"state": S.FAILED, "due": NOW, "failures": 0}
FAILS = becomes(state=S.FAILED, due=LATER, failures=2)
COMPLETES = becomes(state=S.COMPLETED, due=NOW)
REJECTS = becomes(incident(IncidentKind.DELIVERY_REJECTED, "no"), state=S.REJECTED, due=NOW)
PARKS = becomes(SetAside(), state=S.PARKED, due=None, aside=True)

ROWS = (
    Row(
        DeliveryPolled(),
        {
            "new": becomes(Run(1), state=S.PROCESSING, attempt=1, due=LEASED),
            "processing": becomes(AskResolver(1), due=LEASED),
            "failed": becomes(Run(2), state=S.PROCESSING, attempt=2, due=LEASED),
            "blocked parked in_doubt": SAME,
            "completed": ran_already("completed", Leave()),
            "rejected": ran_already("rejected", Leave(rejected=True)),
        },
    ),
    Row(
        AttemptSucceeded(1),
        {OPEN: COMPLETES, **becomes_late("AttemptSucceeded", ENDED)},
    ),
    Row(
        AttemptRejected(1, "no"),
        {OPEN: REJECTS, **becomes_late("AttemptRejected", ENDED)},
    ),
    Row(
        AttemptFailed(1, "down"),
        {
            "processing in_doubt": FAILS,
            **becomes_late("AttemptFailed", "failed blocked parked completed rejected"),
        },
    ),
    Row(
        OutcomeLost(1, "DataError: too long"),
        {"processing": doubts("DataError: too long"), **becomes_late("OutcomeLost", AFTER_ALL)},
    ),
    Row(
        OutcomeKept(),
        {
            "completed": becomes(Leave(), due=None),
            "rejected": becomes(Leave(rejected=True), due=None),
        },
    ),
    *(
        Row(
            ResolverAnswered(1, verdict),
            {"processing": cell, **becomes_late("ResolverAnswered", AFTER_ALL)},
            name=verdict.value,
        )
        for verdict, cell in (
            (ResolverVerdict.NEW, becomes(state=S.FAILED, due=NOW)),
            (ResolverVerdict.DUPLICATE, COMPLETES),
            (ResolverVerdict.IN_DOUBT, doubts("the resolver does not know")),
        )
    ),
    Row(
        RunAgainRequested(),
        {STANDS: becomes(**AGAIN), "rejected": becomes(SetAside(), **AGAIN, aside=True)},
    ),
    Row(CompletionMarked(), {STANDS: becomes(Leave(), state=S.COMPLETED, due=None)}),
    Row(RejectionMarked(), {STANDS: becomes(Leave(rejected=True), state=S.REJECTED, due=None)}),
    Row(ResolverRequested(), {"in_doubt": becomes(state=S.PROCESSING, due=NOW, failures=0)}),
    Row(
        ParkRequested(),
        {
            "failed blocked": PARKS,
            "in_doubt": becomes(SetAside(), Note("", "set aside, still in doubt"), aside=True),
        },
    ),
)


def delivery_in(column: str) -> Delivery:
    if column == "new":
        return Delivery()
    return Delivery(S(column), 1, 1, due=NOW - timedelta(seconds=1))


TABLE = Table(
    "delivery",
    tuple(S),
    ROWS,
    before=lambda row, column: delivery_in(column),
    step=lambda before, event: step(before, event, POLICY, now=NOW),
    transitions=TRANSITIONS,
    states=DeliveryState,
    proves="003-05 002-06 002-07 002-08 002-09 002-10",
    events=frozenset(chain.from_iterable(TRANSITIONS.values())),
)
