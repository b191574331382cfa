"""The table of a conversation that is sent in order (EB-123, EB-124): rows of events, columns of
conversations."""

from dataclasses import replace
from typing import get_args

from msh.protocol.flight.numbering import (
    TRANSITIONS,
    ConversationRestarted,
    LastNumberSet,
    MessageLost,
    MessageResumed,
    MessageStarted,
    MessageStopped,
    MessageTaken,
    Numbering,
    NumberingEvent,
    NumberingState,
    step,
)

from .form import SAME, Becomes, Row, Table, becomes

NEW = Numbering()
CONFIRMING = Numbering(1, resets=False, unconfirmed="m1")
RUNNING = Numbering(7, resets=False)


def stopped(before: Numbering, *message_ids: str) -> Numbering:
    return replace(before, stopped_by=frozenset(message_ids))


COLUMNS = {
    "beginning": NEW,
    "confirming": CONFIRMING,
    "running": RUNNING,
    "stopped": stopped(RUNNING, "m3"),
    "stopped_with_reset": stopped(CONFIRMING, "m1"),
    "stopped_twice": stopped(RUNNING, "m3", "m4"),
    "broken": replace(RUNNING, broken=True),
}
QUIET = "running stopped stopped_with_reset stopped_twice broken"


def stops(*message_ids: str) -> Becomes:
    return becomes(stopped_by=frozenset(message_ids))


def numbers(number: int, *, resets: bool) -> Becomes:
    nobody: frozenset[str] = frozenset()
    return becomes(
        next_number=number, resets=resets, unconfirmed="", stopped_by=nobody, broken=False
    )


LOST = becomes(broken=True)

TABLE = Table(
    "numbering",
    tuple(COLUMNS),
    (
        Row(
            MessageStarted("m1"),
            {
                "beginning": becomes(next_number=1, resets=False, unconfirmed="m1"),
                "running": becomes(next_number=8),
            },
        ),
        Row(
            MessageTaken("m1"),
            {
                "confirming stopped_with_reset": becomes(unconfirmed="", stopped_by=frozenset()),
                "running stopped stopped_twice broken": SAME,
            },
        ),
        Row(
            MessageTaken("m3"),
            {
                "confirming running stopped_with_reset broken": SAME,
                "stopped": stops(),
                "stopped_twice": stops("m4"),
            },
        ),
        Row(
            MessageStopped("m1"),
            {
                "confirming running broken stopped_with_reset": stops("m1"),
                "stopped": stops("m1", "m3"),
                "stopped_twice": stops("m1", "m3", "m4"),
            },
        ),
        Row(
            MessageResumed("m1"),
            {
                "confirming running stopped stopped_twice broken": SAME,
                "stopped_with_reset": stops(),
            },
        ),
        Row(
            MessageResumed("m3"),
            {
                "confirming running stopped_with_reset broken": SAME,
                "stopped": stops(),
                "stopped_twice": stops("m4"),
            },
        ),
        Row(
            MessageLost("m1"),
            {
                "confirming running stopped stopped_twice broken": LOST,
                "stopped_with_reset": becomes(broken=True, stopped_by=frozenset()),
            },
        ),
        Row(ConversationRestarted(outstanding=0), {QUIET: numbers(0, resets=True)}),
        Row(ConversationRestarted(outstanding=1), {}),
        Row(LastNumberSet(41, outstanding=0), {f"beginning {QUIET}": numbers(42, resets=False)}),
        Row(LastNumberSet(41, outstanding=1), {}),
    ),
    before=lambda row, column: COLUMNS[column],
    step=lambda before, event: (step(before, event), ()),
    transitions=TRANSITIONS,
    states=NumberingState,
    events=frozenset(get_args(NumberingEvent)),
    proves="EB-123 EB-124",
    reasons=("1 message of the conversation is neither acknowledged nor cancelled",),
)
