"""The status of a link in one sentence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from msh.admin.links.status_text import state_words, status_text
from msh.flows.operations.inspection.causes import CAUSES
from msh.protocol.agreement import Terms
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import InFlight, Lane, LaneState

NOW = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)

SOON = NOW + timedelta(seconds=10)

FLYING = InFlight("m-23", 23, Terms(60, 3, 120), attempt=2, retries_spent=1)

WAITING = Lane(LaneState.WAITING, 24, in_flight=FLYING, due=SOON)


def test_waiting_names_message_attempt_and_next_time() -> None:
    assert status_text(WAITING, NOW, ended="transmitted") == (
        "Waiting for the Acknowledgement of message 23 until 14:05:10 UTC, attempt 2 of 4: then it"
        " is sent again"
    )
    assert status_text(WAITING, NOW, ended="failed") == (
        "Message 23 was not transmitted, attempt 2 of 4: at 14:05:10 UTC it is sent again"
    )
    assert status_text(WAITING, NOW) == (
        "Sending message 23, attempt 2 of 4, without an answer so far: at 14:05:10 UTC it is sent"
        " again"
    )


@pytest.mark.parametrize(
    ("lane", "ended", "words"),
    [
        (Lane(), "", "idle"),
        (Lane(LaneState.SUSPENDED, in_flight=FLYING), "failed", "suspended"),
        (replace(WAITING, unsent=True), "failed", "sending"),
        (WAITING, "", "sending"),
        (WAITING, "transmitted", "waiting for the Acknowledgement until 14:05:10 UTC"),
        (WAITING, "failed", "waiting for the retry at 14:05:10 UTC"),
        (
            replace(WAITING, in_flight=replace(FLYING, retries_spent=3)),
            "failed",
            "no retry left, suspends at 14:05:10 UTC",
        ),
        (replace(WAITING, state=LaneState.TRANSIENT), "", "asked to wait until 14:05:10 UTC"),
    ],
)
def test_state_says_what_is_waited_for_and_until_when(lane: Lane, ended: str, words: str) -> None:
    assert state_words(lane, NOW, ended) == words


def test_waiting_with_every_retry_spent_says_that_it_suspends() -> None:
    lane = replace(WAITING, in_flight=replace(FLYING, attempt=4, retries_spent=3))

    said = status_text(lane, NOW, ended="transmitted")
    assert said.endswith("until 14:05:10 UTC, attempt 4 of 4: then the link is suspended")


def test_after_a_resume_attempts_and_retries_are_told_apart() -> None:
    lane = replace(WAITING, in_flight=replace(FLYING, attempt=5, retries_spent=0))

    assert "attempt 5, 0 of 3 retries used" in status_text(lane, NOW)


def test_copy_not_sent_yet_is_the_next_attempt() -> None:
    lane = replace(WAITING, unsent=True, in_flight=replace(FLYING, attempt=1))

    assert status_text(lane, NOW) == "Sending message 23, attempt 2 of 4, due at 14:05:10 UTC"


def test_promised_copy_has_its_number_already() -> None:
    flying = replace(FLYING, attempt=2)
    lane = replace(WAITING, unsent=True, promised=True, in_flight=flying)

    assert status_text(lane, NOW) == "Sending message 23, attempt 2 of 4, due at 14:05:10 UTC"


def test_overdue_work_suggests_to_check_the_worker() -> None:
    late = NOW + timedelta(minutes=5)

    assert status_text(WAITING, SOON + timedelta(seconds=15)).endswith("it is sent again")
    assert status_text(WAITING, late).endswith("Overdue by 4 min: check that a worker is running.")


def test_idle_link_with_a_queue_names_worker_and_beat() -> None:
    idle = Lane(next_number=24)
    hint = "Nothing polls this link: the first message of its queue has waited for 1 h 0 min."

    assert "Nothing polls" not in status_text(idle, NOW, NOW - timedelta(seconds=15))
    assert "Nothing polls" not in status_text(WAITING, NOW, NOW - timedelta(hours=1))
    overdue = status_text(idle, NOW, NOW - timedelta(hours=1))
    assert overdue.startswith(f"No message in flight. The next message gets number 24. {hint}")
    assert "Check that a worker is running" in overdue


def test_transient_says_how_often_and_until_when() -> None:
    flying = replace(FLYING, transients=2, transient_since=NOW)
    lane = replace(WAITING, state=LaneState.TRANSIENT, in_flight=flying)

    assert status_text(lane, NOW) == (
        "The partner asked us to wait (2 of at most 100 times): message 23 is sent again at"
        " 14:05:10 UTC"
    )
    assert status_text(replace(lane, in_flight=None), NOW) == (
        "The partner asked us to wait: nothing is sent before 14:05:10 UTC"
    )


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        (Lane(next_number=24), "No message in flight. The next message gets number 24."),
        (Lane(LaneState.SUSPENDED, in_flight=FLYING), "Message 23 blocks the queue."),
        (Lane(LaneState.SUSPENDED), "No message in flight: safe to resume."),
        (
            Lane(LaneState.SUSPENDED, late_ack=True),
            "Late acknowledgement received: safe to resume.",
        ),
    ],
)
def test_idle_and_suspended(lane: Lane, words: str) -> None:
    assert status_text(lane, NOW) == words


def test_every_cause_has_words() -> None:
    assert CAUSES.keys() == {*IncidentKind, "operator", "early_warning"}
