"""The Receiver's table, cell by cell: what becomes of a reliable message that arrives."""

from dataclasses import replace

import pytest

from msh.protocol import effects as do
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind, OnUnexpectedFirst
from msh.protocol.message import Field
from msh.protocol.receiver import (
    TABLE,
    Known,
    MessageArrived,
    Position,
    ReceivingLink,
    allow_reset,
    best_effort,
    ended_run,
    expect,
    given_up,
    position,
    step,
)
from msh.protocol.sequence import preceding
from msh.protocol.vocabulary import ErrorCode

LAST = 999_999_999


def arrived(number: int, known: Known = Known.NO) -> MessageArrived:
    return MessageArrived("m", number, known)


def refuses(
    code: ErrorCode, kind: IncidentKind, text: str, at: Field = Field.SEQUENCE_NUMBER
) -> tuple[do.ReceiverEffect, ...]:
    return (do.QueueError(code, at, text), do.OpenIncident(kind, "m", text))


def gap(text: str) -> tuple[do.ReceiverEffect, ...]:
    return refuses(ErrorCode.SEQUENCE_GAP, IncidentKind.SEQUENCE_GAP, text)


def stale(number: int, last: int) -> tuple[do.ReceiverEffect, ...]:
    text = f"number {number} is not above the last accepted, {last}, and its MessageId is new"
    return refuses(ErrorCode.SEQUENCE_STALE, IncidentKind.SEQUENCE_STALE, text)


def conflict(number: int) -> tuple[do.ReceiverEffect, ...]:
    text = f"number {number} was accepted before for another MessageId"
    return refuses(ErrorCode.SEQUENCE_CONFLICT, IncidentKind.SEQUENCE_CONFLICT, text)


def reset_noted(last: int) -> do.Note:
    return do.Note(
        "m", f"the partner restarted its numbers at 1; the last accepted number was {last}"
    )


@pytest.mark.requirement("000-045", "000-046", "000-102", "000-103")
@pytest.mark.parametrize(
    ("last", "number", "epoch"),
    [
        (None, 1, 4),
        (1, 2, 4),
        (41, 42, 4),
        (LAST - 2, LAST - 1, 4),
        (LAST - 1, LAST, 4),
        (LAST, 1, 5),
    ],
)
def test_the_next_number_is_accepted(last: int | None, number: int, epoch: int) -> None:
    assert step(ReceivingLink(last, epoch=4), arrived(number)) == (
        ReceivingLink(number, epoch),
        (do.Accept(number, epoch), do.QueueAck()),
    )


@pytest.mark.requirement("000-045")
def test_a_new_pair_expects_number_1_in_epoch_1() -> None:
    after, effects = step(ReceivingLink(), arrived(1))
    assert after == ReceivingLink(last_number=1, epoch=1)
    assert effects == (do.Accept(1, 1), do.QueueAck())


@pytest.mark.requirement("000-105")
@pytest.mark.parametrize("setting", OnUnexpectedFirst)
def test_one_after_one_is_the_peers_reset_whatever_was_agreed(setting: OnUnexpectedFirst) -> None:
    event = replace(arrived(1), on_unexpected_first=setting)
    assert step(ReceivingLink(1, epoch=4), event) == (
        ReceivingLink(1, epoch=5),
        (do.Accept(1, 5), do.QueueAck(), reset_noted(1)),
    )


@pytest.mark.requirement("000-047", "000-106")
@pytest.mark.parametrize("last", [2, 41, LAST - 1])
def test_one_out_of_turn_is_accepted_as_a_reset_by_default(last: int) -> None:
    assert step(ReceivingLink(last, epoch=4), arrived(1)) == (
        ReceivingLink(1, epoch=5),
        (do.Accept(1, 5), do.QueueAck(), reset_noted(last)),
    )


@pytest.mark.parametrize("last", [2, 41, LAST - 1])
def test_one_out_of_turn_is_held_if_agreed(last: int) -> None:
    link = ReceivingLink(last, epoch=4)
    event = replace(arrived(1), on_unexpected_first=OnUnexpectedFirst.HOLD)
    text = (
        "number 1 was not expected: it is not stored, and has to be sent again, until an operator"
        " allows the reset"
    )
    assert step(link, event) == (
        link,
        refuses(ErrorCode.TRANSIENT_ERROR, IncidentKind.RESET_HELD, text),
    )


@pytest.mark.parametrize("last", [2, 41, LAST - 1])
def test_one_out_of_turn_is_refused_if_agreed(last: int) -> None:
    link = ReceivingLink(last, epoch=4)
    event = replace(arrived(1), on_unexpected_first=OnUnexpectedFirst.REFUSE)
    assert step(link, event) == (link, stale(1, last))


@pytest.mark.parametrize("setting", OnUnexpectedFirst)
def test_an_operator_lets_the_next_one_in_and_only_the_next(setting: OnUnexpectedFirst) -> None:
    event = replace(arrived(1), on_unexpected_first=setting)
    after, effects = step(ReceivingLink(41, epoch=4, reset_allowed=True), event)
    assert after == ReceivingLink(1, epoch=5, reset_allowed=False)
    assert effects == (do.Accept(1, 5), do.QueueAck(), reset_noted(41))


@pytest.mark.parametrize(
    ("last", "number", "still_allowed"), [(41, 42, True), (LAST, 1, False), (1, 1, False)]
)
def test_an_allowed_reset_is_spent_by_the_next_number_one(
    last: int, number: int, still_allowed: bool
) -> None:
    after, _ = step(ReceivingLink(last, reset_allowed=True), arrived(number))
    assert after.reset_allowed is still_allowed


@pytest.mark.requirement("000-104")
@pytest.mark.parametrize("last", [2, 41, LAST])
def test_the_last_number_under_a_new_id_is_a_conflict_and_no_ack(last: int) -> None:
    """D2: the draft would acknowledge and throw away what a restored Sender sends here."""
    link = ReceivingLink(last)
    assert step(link, arrived(last)) == (link, conflict(last))


@pytest.mark.requirement("000-107")
@pytest.mark.parametrize(
    ("last", "number", "text"),
    [
        (1, 3, "number 3 came, 2 missing: expected 2"),
        (41, 44, "number 44 came, 42 to 43 missing: expected 42"),
        (41, LAST, "number 999999999 came, 42 to 999999998 missing: expected 42"),
        (LAST, 2, "number 2 came, 1 missing: expected 1"),
        (LAST, LAST - 1, "number 999999998 came, 1 to 999999997 missing: expected 1"),
        (None, 2, "number 2 came, 1 missing: expected 1"),
        (None, LAST, "number 999999999 came, 1 to 999999998 missing: expected 1"),
    ],
)
def test_a_number_too_high_is_a_gap(last: int | None, number: int, text: str) -> None:
    """Without L, anything but 1 is a gap too (D50)."""
    link = ReceivingLink(last)
    assert step(link, arrived(number)) == (link, gap(text))


@pytest.mark.requirement("000-107")
@pytest.mark.parametrize(
    ("last", "number"), [(3, 2), (41, 40), (41, 2), (LAST - 1, LAST - 2), (LAST - 1, 2)]
)
def test_a_number_too_low_is_stale(last: int, number: int) -> None:
    link = ReceivingLink(last)
    assert step(link, arrived(number)) == (link, stale(number, last))


ANY_POSITION = [
    (None, 1),  # next
    (None, 2),  # gap
    (41, 42),  # next
    (41, 41),  # last
    (41, 43),  # gap
    (41, 40),  # stale
    (41, 1),  # one out of turn
    (1, 1),  # one again
    (LAST, 1),  # wrap-around
    (LAST, LAST),
]


@pytest.mark.requirement("000-002", "000-012", "000-013", "000-094", "000-095")
@pytest.mark.parametrize(("last", "number"), ANY_POSITION)
def test_a_known_id_is_a_duplicate_whatever_its_number(last: int | None, number: int) -> None:
    """D1, D3: the MessageId is asked before the number; the Ack is sent again."""
    link = ReceivingLink(last, epoch=4, reset_allowed=True)
    effects = (do.CountDuplicate(), do.QueueAck())
    assert step(link, arrived(number, Known.SAME)) == (link, effects)


@pytest.mark.parametrize(("last", "number"), ANY_POSITION)
def test_a_known_id_whose_ack_is_withheld_gets_transient_error(
    last: int | None, number: int
) -> None:
    link = ReceivingLink(last, epoch=4, reset_allowed=True)
    text = "stored, but not acknowledged by the next MSH yet"
    effects = (do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, text),)
    assert step(link, arrived(number, Known.WITHHELD)) == (link, effects)


@pytest.mark.parametrize(("last", "number"), ANY_POSITION)
def test_a_known_id_with_other_content_is_reused(last: int | None, number: int) -> None:
    """D45."""
    link = ReceivingLink(last, epoch=4, reset_allowed=True)
    text = "MessageId m was accepted before with other content"
    assert step(link, arrived(number, Known.OTHER)) == (
        link,
        refuses(
            ErrorCode.MESSAGE_ID_REUSED,
            IncidentKind.MESSAGE_ID_REUSED,
            text,
            at=Field.MESSAGE_ID,
        ),
    )


@pytest.mark.requirement("000-010", "000-038", "000-072")
def test_best_effort_is_stored_once_and_not_acknowledged() -> None:
    """D5, D22."""
    text = "MessageId m was accepted before with other content"
    reused = IncidentKind.MESSAGE_ID_REUSED
    assert {known: best_effort("m", known) for known in Known} == {
        Known.NO: (do.Accept(None, None),),
        Known.SAME: (do.CountDuplicate(),),
        Known.WITHHELD: (do.CountDuplicate(),),
        Known.OTHER: refuses(ErrorCode.MESSAGE_ID_REUSED, reused, text, at=Field.MESSAGE_ID),
    }


def test_the_table_has_a_cell_for_everything() -> None:
    assert [set(TABLE[known]) for known in Known] == [set(Position)] * len(Known)


@pytest.mark.parametrize(
    ("last", "number", "where"),
    [
        (None, 1, Position.NEXT),
        (None, 2, Position.GAP),
        (1, 1, Position.ONE_AGAIN),
        (1, 2, Position.NEXT),
        (2, 1, Position.ONE),
        (2, 2, Position.LAST),
        (2, 4, Position.GAP),
        (3, 2, Position.STALE),
        (LAST, 1, Position.NEXT),
        (LAST, LAST, Position.LAST),
        (LAST - 1, 1, Position.ONE),
    ],
)
def test_position(last: int | None, number: int, where: Position) -> None:
    assert position(last, number) is where


def test_a_reset_can_be_allowed_once_there_is_something_to_reset() -> None:
    link = ReceivingLink(41, epoch=4)
    allowed = allow_reset(link)
    assert allowed == ReceivingLink(41, epoch=4, reset_allowed=True)
    for senseless in (allowed, ReceivingLink()):
        with pytest.raises(IllegalTransition):
            allow_reset(senseless)


@pytest.mark.parametrize(
    ("last", "number", "lost"),
    [(41, 43, 1), (41, 45, 3), (LAST, 3, 2), (LAST - 2, 1, 2), (None, 2, 1), (None, 42, 41)],
)
def test_an_operator_says_which_number_comes_next(last: int | None, number: int, lost: int) -> None:
    """In a new epoch, so that a number may come a second time after the wrap-around."""
    assert given_up(last, number) == lost
    link = expect(ReceivingLink(last, epoch=4), number)
    assert link == ReceivingLink(preceding(number), epoch=5)
    after, _ = step(link, arrived(number))
    assert after.last_number == number


@pytest.mark.parametrize(
    ("last", "number"), [(41, 42), (41, 41), (41, 40), (41, 1), (41, LAST), (LAST, 1), (None, 1)]
)
def test_expected_number_must_be_ahead(last: int | None, number: int) -> None:
    assert given_up(last, number) == 0
    with pytest.raises(IllegalTransition):
        expect(ReceivingLink(last), number)


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        (ReceivingLink(7, 1), ReceivingLink(8, 1), 0),
        (ReceivingLink(7, 1), ReceivingLink(1, 2), 7),
        (ReceivingLink(None, 1), ReceivingLink(4, 2), 0),
        (ReceivingLink(999_999_999, 1), ReceivingLink(1, 2), 0),
    ],
)
def test_numbers_may_begin_again_before_the_last_one(
    before: ReceivingLink, after: ReceivingLink, ended: int
) -> None:
    assert ended_run(before, after) == ended
