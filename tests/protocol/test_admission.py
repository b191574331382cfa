"""When a partner is told to wait, and for how long."""

from datetime import UTC, datetime, timedelta

import pytest

from msh.protocol import effects as do
from msh.protocol.admission import Limits, Postponed, Shortage, Usage, admission, store_short
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Field
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink, best_effort, step
from msh.protocol.vocabulary import ErrorCode

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FULL = store_short("the disk is nearly full")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("limits", "usage", "short"),
    [
        (Limits(), Usage(10**6, 10**12, NOW), None),
        (Limits(undelivered_messages=1, undelivered_bytes=1), Usage(), None),
        (Limits(undelivered_messages=5), Usage(undelivered_messages=4), None),
        (Limits(undelivered_messages=5), Usage(undelivered_messages=5), Shortage.BACKLOG),
        (Limits(undelivered_messages=1), Usage(undelivered_messages=1), Shortage.BACKLOG),
        (Limits(undelivered_bytes=1), Usage(undelivered_bytes=1), Shortage.BACKLOG),
        (Limits(undelivered_bytes=100), Usage(undelivered_bytes=99), None),
        (Limits(undelivered_bytes=100), Usage(undelivered_bytes=100), Shortage.BACKLOG),
        (Limits(rate=10), Usage(rate_reached_at=None), None),
        (Limits(rate=10), Usage(rate_reached_at=ago(60)), None),
        (Limits(rate=10), Usage(rate_reached_at=ago(59)), Shortage.RATE),
    ],
)
def test_reasons_to_postpone(limits: Limits, usage: Usage, short: Shortage | None) -> None:
    postponed = admission(limits, usage, NOW)
    assert (postponed and postponed.shortage) is short


@pytest.mark.parametrize("limits", [Limits(undelivered_messages=1), Limits(undelivered_bytes=1)])
def test_a_partner_whose_consumer_does_not_keep_up_waits_half_a_minute(limits: Limits) -> None:
    postponed = admission(limits, Usage(1, 1), NOW)
    assert postponed is not None
    assert postponed.wait == 30


@pytest.mark.parametrize("name", ["rate", "undelivered_messages", "undelivered_bytes"])
def test_one_limit_is_enough_to_have_any(name: str) -> None:
    assert not Limits().any
    assert Limits(**{name: 1}).any


@pytest.mark.parametrize(("age", "wait"), [(59.5, 1), (10, 51), (0, 60), (-3600, 60)])
def test_rate_limited_partner_waits_for_the_end_of_the_window(age: float, wait: int) -> None:
    postponed = admission(Limits(rate=10), Usage(rate_reached_at=ago(age)), NOW)
    assert postponed is not None
    assert postponed.wait == wait


def arrived(number: int, known: Known = Known.NO, why: Postponed = FULL) -> MessageArrived:
    return MessageArrived("m", number, known, postponed=why)


def told_to_wait(seconds: int, text: str) -> do.QueueError:
    return do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, text, seconds)


@pytest.mark.requirement("000-003")
@pytest.mark.parametrize("number", [1, 42])
def test_acceptable_message_is_postponed(number: int) -> None:
    link = ReceivingLink(41, reset_allowed=True)
    assert step(link, arrived(number)) == (
        link,
        (
            told_to_wait(60, FULL.text),
            do.OpenIncident(IncidentKind.STORE_SHORT, "m", FULL.text),
        ),
    )


def test_a_fast_partner_calls_no_operator() -> None:
    fast = Postponed(Shortage.RATE, 7, "too fast")
    link = ReceivingLink(41)
    assert step(link, arrived(42, why=fast)) == (link, (told_to_wait(7, "too fast"),))


@pytest.mark.requirement("000-013")
def test_a_known_message_is_acknowledged_again_whatever_is_short() -> None:
    link = ReceivingLink(41)
    _, effects = step(link, arrived(41, Known.SAME))
    assert effects == (do.CountDuplicate(), do.QueueAck())


@pytest.mark.parametrize(
    ("number", "known", "code"),
    [
        (41, Known.NO, ErrorCode.SEQUENCE_CONFLICT),
        (43, Known.NO, ErrorCode.SEQUENCE_GAP),
        (40, Known.NO, ErrorCode.SEQUENCE_STALE),
        (42, Known.OTHER, ErrorCode.MESSAGE_ID_REUSED),
    ],
)
def test_unacceptable_message_is_refused_at_once(
    number: int, known: Known, code: ErrorCode
) -> None:
    """A wait would only put the Error off."""
    _, (error, _) = step(ReceivingLink(41), arrived(number, known))
    assert isinstance(error, do.QueueError)
    assert error.code is code


def test_best_effort_is_not_stored_either() -> None:
    kinds = [type(effect) for effect in best_effort("m", Known.NO, FULL)]
    assert kinds == [do.QueueError, do.OpenIncident]
    assert best_effort("m", Known.SAME, FULL) == (do.CountDuplicate(),)
