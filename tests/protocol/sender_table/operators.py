"""Rows of the table: what an operator may do."""

from typing import Any

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR, LaneState

from .lanes import (
    ILLEGAL,
    LANDS_IDLE,
    TERMS,
    TRANSMITS,
    Expected,
    Row,
    becomes,
    everywhere,
    flying,
    only,
)


def cancelled(verdict: Verdict, **changes: Any) -> dict[str, Expected]:
    """The row of a cancellation. `changes`: what the verdict makes of the numbers."""
    effects = (
        do.Cancel("m7", verdict, free_number=verdict is Verdict.NOT_RECEIVED),
        do.NotifyFromParty(PartyEventKind.CANCELLED, "m7", verdict.value),
    )
    lands = becomes(*effects, do.PollLane(), **LANDS_IDLE, **changes)
    stays = becomes(*effects, in_flight=None, **changes)
    return only(waiting=lands, unsent=lands, promised=lands, transient=stays, suspended=stays)


OPERATORS = (
    Row(
        "operator: resume",
        on.OperatorResumed(),
        only(
            transient=becomes(do.Transmit(), **TRANSMITS),
            transient_empty=becomes(do.PollLane(), state=LaneState.IDLE, due=None),
            suspended=becomes(
                do.ResolveIncidents(),
                do.Transmit(),
                in_flight=flying(retries_spent=0, transients=0, transient_since=None),
                **TRANSMITS,
            ),
            suspended_empty=becomes(
                do.ResolveIncidents(),
                do.PollLane(),
                state=LaneState.IDLE,
                late_ack=False,
                suspended_for="",
            ),
        ),
        proves=("000-033", "000-034"),
    ),
    Row(
        "operator: reset retries",
        on.RetriesReset(),
        only(
            waiting=becomes(in_flight=flying(retries_spent=0)),
            unsent=becomes(in_flight=flying(retries_spent=0)),
            promised=becomes(in_flight=flying(retries_spent=0)),
            transient=becomes(in_flight=flying(retries_spent=0)),
        ),
    ),
    Row(
        "operator: reset retries of a probe",
        on.RetriesReset(),
        only(
            waiting=becomes(do.ResolveIncidents(), in_flight=flying(retries_spent=0)),
            unsent=becomes(do.ResolveIncidents(), in_flight=flying(retries_spent=0)),
            promised=becomes(do.ResolveIncidents(), in_flight=flying(retries_spent=0)),
            transient=becomes(do.ResolveIncidents(), in_flight=flying(retries_spent=0)),
        ),
        flying=flying(retries_spent=TERMS.retries + 1),
    ),
    Row(
        "operator: send now",
        on.SendNowRequested(),
        only(
            waiting=becomes(do.Transmit(), **TRANSMITS),
            unsent=becomes(do.Transmit(), **TRANSMITS),
            promised=becomes(do.Transmit(), **TRANSMITS),
            transient=becomes(do.Transmit(), **TRANSMITS),
        ),
    ),
    Row(
        "operator: suspend",
        on.OperatorSuspended(),
        everywhere(
            becomes(
                state=LaneState.SUSPENDED,
                due=None,
                unsent=False,
                promised=False,
                suspended_for=OPERATOR,
            )
        )
        | {"suspended": ILLEGAL, "suspended_empty": ILLEGAL},
    ),
    Row(
        "operator: cancel, received",
        on.MessageCancelled(Verdict.RECEIVED),
        cancelled(Verdict.RECEIVED),
    ),
    Row(
        "operator: cancel, unknown",
        on.MessageCancelled(Verdict.UNKNOWN),
        cancelled(Verdict.UNKNOWN, next_number=1, epoch=3),
    ),
    Row(
        "operator: cancel, not received, proven",
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        cancelled(Verdict.NOT_RECEIVED, next_number=7),
    ),
    Row(
        "operator: cancel, not received, not proven",
        on.MessageCancelled(Verdict.NOT_RECEIVED),
        everywhere(ILLEGAL),
    ),
    Row(
        "operator: reset the sequence",
        on.SequenceReset(),
        only(
            suspended_empty=becomes(next_number=1, epoch=3),
            idle=becomes(next_number=1, epoch=3),
        ),
        proves=("000-047", "000-048"),
    ),
    Row(
        "operator: reset the sequence, messages in doubt",
        on.SequenceReset(in_doubt=2),
        everywhere(ILLEGAL),
        proves=("000-048",),
    ),
    Row(
        "operator: cancel a rewound message, received",
        on.MessageCancelled(Verdict.RECEIVED),
        cancelled(Verdict.RECEIVED),
        flying=flying(sequence_number=5),
    ),
    Row(
        "operator: cancel a rewound message, unknown",
        on.MessageCancelled(Verdict.UNKNOWN),
        everywhere(ILLEGAL),
        flying=flying(sequence_number=5),
    ),
    Row(
        "operator: cancel a rewound message, not received",
        on.MessageCancelled(Verdict.NOT_RECEIVED, nothing_sent=True),
        everywhere(ILLEGAL),
        flying=flying(sequence_number=5),
    ),
    Row(
        "operator: rewind",
        on.SequenceRewound(on.Numbered(4, 2)),
        only(
            suspended=becomes(do.Rewind(on.Numbered(4, 2)), in_flight=None),
            suspended_empty=becomes(do.Rewind(on.Numbered(4, 2))),
        ),
    ),
    Row(
        "operator: adopt the partner's number",
        on.SequenceAdopted(42, not_received=True),
        only(
            suspended=becomes(do.Requeue("m7"), in_flight=None, next_number=42, epoch=3),
            suspended_empty=becomes(next_number=42, epoch=3),
        ),
    ),
    Row(
        "operator: adopt the partner's number, the message in flight in doubt",
        on.SequenceAdopted(42),
        only(suspended_empty=becomes(next_number=42, epoch=3)),
    ),
)
