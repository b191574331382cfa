"""Why a message is not sent or not acknowledged yet: one sentence or a few, for each reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from msh.flows.operations.inspection.situation import LastAttempt, Situation
from msh.flows.operations.inspection.why_not_sent import explanation, overdue_since
from msh.protocol.agreement import Terms
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import InFlight, Lane, LaneState
from msh.protocol.reason import Reason
from msh.store.operations.queue_place import MOST, Place

NOW = datetime(2026, 11, 22, 14, 5, tzinfo=UTC)
LATER, EARLIER = NOW + timedelta(minutes=1), NOW - timedelta(hours=1)
FLYING = InFlight("m-7", 7, Terms(60, 3, 120), attempt=2, retries_spent=1)
WAITING = Lane(LaneState.WAITING, 8, in_flight=FLYING, due=LATER)
QUEUED = Situation(
    message_id="m-9",
    state="queued",
    best_effort=False,
    submitted_at=NOW,
    completed_at=None,
    due=None,
    verdict="",
    lane=Lane(),
    suspended_since=None,
    suspended_detail="",
    attempt=None,
    place=Place(0, 0, now=NOW),
)
FLIES = replace(QUEUED, message_id="m-7", state="in_flight", lane=WAITING)
BEST_EFFORT = replace(QUEUED, best_effort=True)
ENDED = replace(QUEUED, completed_at=NOW)
SUSPENDED = Lane(LaneState.SUSPENDED, in_flight=FLYING, suspended_for="retries_spent")
ANSWERED = LastAttempt(EARLIER, EARLIER, "failed", "503\nbusy", Reason.UNAVAILABLE)


@pytest.mark.parametrize(
    ("situation", "words"),
    [
        (replace(ENDED, state="acknowledged"), "Acknowledged at 2026-11-22 14:05:00 UTC."),
        (
            replace(ENDED, state="cancelled", verdict="unknown"),
            "Cancelled at 2026-11-22 14:05:00 UTC: unknown whether the partner has it.",
        ),
        (replace(ENDED, state="cancelled"), "Cancelled at 2026-11-22 14:05:00 UTC."),
        (
            replace(ENDED, state="sent"),
            "Sent at 2026-11-22 14:05:00 UTC. A BestEffort message is not acknowledged.",
        ),
        (
            replace(ENDED, state="failed", attempt=ANSWERED, best_effort=True),
            (
                "Failed at 2026-11-22 14:05:00 UTC: failed, 503 busy. A BestEffort message has"
                " one attempt. If it is still needed, submit the message again. To change it,"
                " submit a corrected copy."
            ),
        ),
        (
            replace(QUEUED, lane=SUSPENDED, suspended_since=EARLIER, suspended_detail="no answer"),
            (
                "The link has been suspended since 2026-11-22 13:05:00 UTC, at message m-7"
                " (number 7): No Acknowledgement after all retries (no answer). Check that the"
                " partner's MSH is running, then resume sending. After resuming, a partner that has"
                " already stored the message discards the duplicate and acknowledges it again."
            ),
        ),
        (
            replace(
                QUEUED,
                lane=SUSPENDED,
                suspended_detail="no Acknowledgement after 4 attempts",
                attempt=LastAttempt(NOW, NOW, "doubted", "401 Unauthorized", Reason.CREDENTIALS),
            ),
            (
                "The link has been suspended since an unknown time, at message m-7 (number 7): The"
                " partner refuses our credentials (no Acknowledgement after 4 attempts)."
                " Last answer: unexpected response, 401 Unauthorized. Its MSH is running. Replace"
                " our credentials in the partner's settings, test the connection, then resume"
                " sending. Nothing else helps."
            ),
        ),
        (
            replace(QUEUED, lane=replace(SUSPENDED, in_flight=None, late_ack=True)),
            (
                "The link has been suspended since an unknown time: No Acknowledgement after all"
                " retries. The Acknowledgement came late. Resume sending."
            ),
        ),
        (
            replace(QUEUED, lane=Lane(LaneState.SUSPENDED, suspended_for="of a later version")),
            (
                "The link has been suspended since an unknown time: of a later version. Resume"
                " sending."
            ),
        ),
        (
            replace(QUEUED, lane=WAITING, attempt=ANSWERED, place=Place(2, 3, NOW)),
            (
                "Message m-7 (number 7) is in flight before it: 2 attempts, no Acknowledgement"
                " yet. Last answer: failed, 503 busy. The next copy is sent at 2026-11-22"
                " 14:06:00 UTC unless it is acknowledged. The partner's MSH is not available:"
                " in maintenance or overloaded. If this continues, ask the partner's operator when"
                " it is available again. In the queue 5 messages are before it, 2 of them to be"
                " sent again."
            ),
        ),
        (
            FLIES,
            (
                "Number 7 is in flight: 2 attempts, no Acknowledgement yet. The next copy is"
                " sent at 2026-11-22 14:06:00 UTC unless it is acknowledged."
            ),
        ),
        (
            replace(FLIES, attempt=LastAttempt(NOW, None, "", "")),
            (
                "Number 7 is in flight: attempt 2 has been in progress since 2026-11-22 14:05:00"
                " UTC. The next copy is sent at 2026-11-22 14:06:00 UTC."
            ),
        ),
        (
            replace(FLIES, lane=replace(WAITING, in_flight=replace(FLYING, retries_spent=3))),
            (
                "Number 7 is in flight: 2 attempts, no Acknowledgement yet. The link is"
                " suspended at 2026-11-22 14:06:00 UTC unless it is acknowledged."
            ),
        ),
        (
            replace(FLIES, lane=replace(WAITING, unsent=True)),
            (
                "Number 7 is in flight: attempt 3 has not been sent yet. It is due at 2026-11-22"
                " 14:06:00 UTC, when the worker has a free place for this partner."
            ),
        ),
        (
            replace(FLIES, lane=replace(WAITING, unsent=True, promised=True)),
            (
                "Number 7 is in flight: one worker was asked to send attempt 2. If it does not, any"
                " worker sends it from 2026-11-22 14:06:00 UTC on."
            ),
        ),
        (
            replace(
                FLIES,
                lane=replace(
                    WAITING, state=LaneState.TRANSIENT, in_flight=replace(FLYING, transients=2)
                ),
            ),
            (
                "The partner asked us to wait, 2 times: number 7 is sent again at 2026-11-22"
                " 14:06:00 UTC."
            ),
        ),
        (
            replace(QUEUED, lane=Lane(LaneState.TRANSIENT, due=LATER)),
            "The partner asked us to wait: nothing is sent before 2026-11-22 14:06:00 UTC.",
        ),
        (
            replace(QUEUED, place=Place(0, MOST, NOW)),
            (
                "The link is idle and nothing is in flight: the next poll sends the first"
                " message. In the queue at least 1000 messages are before it."
            ),
        ),
        (
            replace(QUEUED, submitted_at=EARLIER, stopped="The worker is down. Start it"),
            (
                "The link is idle and nothing is in flight: the next poll sends the first"
                " message. Overdue since 2026-11-22 13:05:00 UTC. Nothing polls the link. The"
                " worker is down. Start it."
            ),
        ),
        (
            replace(FLIES, lane=replace(WAITING, unsent=True, due=EARLIER)),
            (
                "Number 7 is in flight: attempt 3 has not been sent yet. It is due at 2026-11-22"
                " 13:05:00 UTC, when the worker has a free place for this partner. Overdue since"
                " 2026-11-22 13:05:00 UTC. A worker is running: it has no free place, or its log"
                " says why it fails."
            ),
        ),
        (
            replace(BEST_EFFORT, lane=Lane(LaneState.TRANSIENT, due=LATER)),
            "The partner asked us to wait: nothing is sent before 2026-11-22 14:06:00 UTC.",
        ),
        (
            replace(BEST_EFFORT, lane=replace(WAITING, in_flight=FLYING.probes())),
            "The partner is being probed: BestEffort messages wait until it answers.",
        ),
        (
            replace(BEST_EFFORT, lane=WAITING),
            "It is waiting for a worker with a free place for this partner.",
        ),
        (
            replace(BEST_EFFORT, state="in_flight", due=LATER),
            (
                "Its one attempt is in progress. If the worker is lost, the message fails at"
                " 2026-11-22 14:06:00 UTC."
            ),
        ),
    ],
)
def test_each_reason_has_its_words(situation: Situation, words: str) -> None:
    assert explanation(situation) == words


@pytest.mark.parametrize(
    ("situation", "since"),
    [
        (replace(QUEUED, submitted_at=EARLIER), EARLIER),
        (replace(QUEUED, submitted_at=NOW - timedelta(seconds=15)), None),
        (replace(QUEUED, submitted_at=EARLIER, lane=WAITING), None),
        (replace(QUEUED, lane=replace(WAITING, due=EARLIER)), EARLIER),
        (replace(QUEUED, submitted_at=EARLIER, lane=SUSPENDED), None),
        (replace(QUEUED, submitted_at=EARLIER, state="acknowledged"), None),
        (replace(BEST_EFFORT, submitted_at=EARLIER, lane=WAITING), EARLIER),
        (replace(BEST_EFFORT, state="in_flight", submitted_at=EARLIER, due=LATER), None),
        (replace(BEST_EFFORT, state="in_flight", due=EARLIER), EARLIER),
    ],
)
def test_only_what_a_poll_should_have_done_is_overdue(
    situation: Situation, since: datetime | None
) -> None:
    assert overdue_since(situation) == since


def test_best_effort_message_under_way_does_not_wait_for_a_suspended_link() -> None:
    under_way = replace(BEST_EFFORT, state="in_flight", due=LATER, lane=SUSPENDED)
    assert explanation(under_way).startswith("Its one attempt is in progress.")
    assert explanation(replace(under_way, state="queued")).startswith("The link has been suspended")
    assert overdue_since(replace(under_way, due=EARLIER)) == EARLIER


def test_every_kind_of_suspension_is_explained() -> None:
    for kind in IncidentKind:
        lane = Lane(LaneState.SUSPENDED, suspended_for=kind)
        assert kind not in explanation(replace(QUEUED, lane=lane)).split()
