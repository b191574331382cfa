"""Every violation the checker knows is made once by hand; a checker that cannot find is none."""

from dataclasses import asdict, replace

import pytest

from demo.checker import STUCK_AFTER, judge, late, traffic
from demo.evidence import Delivery, Evidence, Lane, Open, Submission, Suspension, Transmitted

PAIR = "pair-1"


def exchanged(number: int) -> tuple[Transmitted, Transmitted]:
    """The message `m<number>` and its Ack on the wire, one request each, nothing amiss."""
    at = number * 10
    message = Transmitted(at, PAIR, "Normal", f"m{number}", "", f"body-{number}", copies=(at + 1,))
    ack = Transmitted(
        at + 2,
        PAIR,
        "Acknowledgement",
        f"a{number}",
        f"m{number}",
        f"ack-{number}",
        row_found=True,
        copies=(at + 3,),
    )
    return message, ack


def submission(number: int) -> Submission:
    return Submission(PAIR, f"m{number}", order=number, sha256=f"file-{number}")


def delivery(number: int) -> Delivery:
    return Delivery(PAIR, f"m{number}", sha256=f"file-{number}")


CLEAN = Evidence(
    submissions=tuple(submission(number) for number in (1, 2, 3)),
    deliveries=tuple(delivery(number) for number in (1, 2, 3)),
    transmitted=tuple(request for number in (1, 2, 3) for request in exchanged(number)),
    accepted=frozenset({"m1", "m2", "m3"}),
    lanes=(Lane(PAIR, "idle", open_messages=0, overdue=None, still=0.0, open_incident=False),),
    suspensions=(Suspension(PAIR, incident=True),),
)


def with_requests(*requests: Transmitted) -> Evidence:
    transmitted = sorted((*CLEAN.transmitted, *requests), key=lambda request: request.at)
    return replace(CLEAN, transmitted=tuple(transmitted))


def with_lane(
    state: str,
    open_messages: int,
    overdue: float | None,
    incident: bool,
    still: float = STUCK_AFTER + 1,
) -> Evidence:
    lane = Lane(PAIR, state, open_messages, overdue, still, open_incident=incident)
    return replace(CLEAN, lanes=(lane,))


def found(evidence: Evidence) -> dict[str, int]:
    return {name: count for name, count in asdict(judge(evidence)).items() if count}


def test_a_clean_run_has_no_violation() -> None:
    assert found(CLEAN) == {}


def test_repaired_disturbance_is_no_violation() -> None:
    first, ack = exchanged(1)
    again = [
        replace(first, at=11, fault="drop-request", copies=()),
        replace(first, at=36, fault="reorder", copies=(37,)),  # a late copy of m1
        replace(ack, at=38, message_id="a1b", sha256="another Ack", row_found=None, copies=(39,)),
    ]
    assert found(with_requests(*again)) == {}


def test_lost_after_submit() -> None:
    missing = replace(CLEAN, deliveries=CLEAN.deliveries[:2])
    assert found(missing) == {"lost": 1}


def test_lost_after_accept_or_ack_though_no_submit_returned() -> None:
    accepted = replace(CLEAN, accepted=CLEAN.accepted | {"m4"})
    assert found(accepted) == {"lost": 1}
    assert found(with_requests(*exchanged(4))) == {"lost": 1}


def test_message_still_in_an_msh_is_late_not_lost() -> None:
    cut_short = replace(
        CLEAN,
        deliveries=CLEAN.deliveries[:1],
        under_way=frozenset({Open("m2", "a: in_flight"), Open("m2", "b: accepted")}),
    )
    assert found(cut_short) == {"lost": 1}  # m3, which nobody has
    assert late(cut_short) == {"a: in_flight, b: accepted": 1}

    queue = replace(cut_short, under_way=cut_short.under_way | {Open("m3", "a: queued")})
    assert found(queue) == {}
    assert late(queue) == {"a: in_flight, b: accepted": 1, "a: queued": 1}


def test_delivered_message_without_ack_is_not_late() -> None:
    unacknowledged = replace(CLEAN, under_way=frozenset({Open("m3", "a: in_flight")}))
    assert late(unacknowledged) == {}
    unseen = replace(unacknowledged, transmitted=CLEAN.transmitted[:-1])
    assert found(unseen) == {}
    assert found(replace(unseen, under_way=frozenset())) == {"unwitnessed": 1}


def test_duplicated() -> None:
    doubled = replace(CLEAN, deliveries=(*CLEAN.deliveries, delivery(1)))
    assert found(doubled) == {"duplicated": 1}


def test_unexpected() -> None:
    rolled_back = replace(CLEAN, submissions=CLEAN.submissions[:2])
    assert found(rolled_back) == {"unexpected": 1}


def test_out_of_order() -> None:
    swapped = (delivery(1), delivery(3), delivery(2))
    assert found(replace(CLEAN, deliveries=swapped)) == {"out_of_order": 1}


def test_order_is_judged_within_a_pair_only() -> None:
    submissions = (*CLEAN.submissions, Submission("pair-2", "n1", 1, "f"))
    deliveries = (*CLEAN.deliveries, Delivery("pair-2", "n1", "f"))
    message, ack = exchanged(5)
    other = (
        replace(message, pair="pair-2", message_id="n1"),
        replace(ack, pair="pair-2", ref_to_message_id="n1"),
    )
    run = replace(with_requests(*other), submissions=submissions, deliveries=deliveries)
    assert found(run) == {}


def test_premature_ack() -> None:
    message, ack = exchanged(3)
    early = (*CLEAN.transmitted[:4], message, replace(ack, row_found=False))
    assert found(replace(CLEAN, transmitted=early)) == {"premature_ack": 1}


def test_overlap_with_a_message_whose_ack_never_passed() -> None:
    message, ack = exchanged(2)
    swallowed = replace(ack, fault="drop-request", copies=())
    transmitted = (*CLEAN.transmitted[:2], message, swallowed, *CLEAN.transmitted[4:])
    assert found(replace(CLEAN, transmitted=transmitted)) == {"overlap": 1}


def test_overlap_with_a_message_whose_ack_passed_later() -> None:
    message, ack = exchanged(2)
    delayed = replace(ack, fault="delay", copies=(31,))  # m3 was seen at 30
    transmitted = (*CLEAN.transmitted[:2], message, delayed, *CLEAN.transmitted[4:])
    assert found(replace(CLEAN, transmitted=transmitted)) == {"overlap": 1}


def test_altered_between_two_copies() -> None:
    first, _ = exchanged(1)
    assert found(with_requests(replace(first, at=11, sha256="other"))) == {"altered": 1}


def test_altered_between_two_copies_of_an_ack() -> None:
    _, ack = exchanged(1)
    other = replace(ack, at=14, sha256="other", row_found=None)
    assert found(with_requests(other)) == {"altered": 1}


def test_altered_payload() -> None:
    deliveries = (*CLEAN.deliveries[:2], replace(delivery(3), sha256="other"))
    assert found(replace(CLEAN, deliveries=deliveries)) == {"altered": 1}


@pytest.mark.parametrize("state", ["idle", "waiting", "transient"])
@pytest.mark.parametrize("overdue", [None, STUCK_AFTER + 1])
def test_stuck(state: str, overdue: float | None) -> None:
    assert found(with_lane(state, 1, overdue, incident=False)) == {"stuck": 1}


@pytest.mark.parametrize(
    ("state", "open_messages", "overdue"),
    [("waiting", 1, -2.0), ("waiting", 1, 0.5), ("idle", 0, None), ("suspended", 3, None)],
)
def test_not_stuck(state: str, open_messages: int, overdue: float | None) -> None:
    assert found(with_lane(state, open_messages, overdue, incident=True)) == {}


@pytest.mark.parametrize("state", ["idle", "waiting"])
def test_a_lane_on_which_something_happened_lately_is_not_stuck(state: str) -> None:
    assert found(with_lane(state, 1, None, incident=False, still=STUCK_AFTER - 1)) == {}


def test_silent_suspend_at_the_end() -> None:
    assert found(with_lane("suspended", 1, None, incident=False)) == {"silent_suspend": 1}


def test_silent_suspend_in_the_history() -> None:
    suspensions = (*CLEAN.suspensions, Suspension(PAIR, incident=False))
    assert found(replace(CLEAN, suspensions=suspensions)) == {"silent_suspend": 1}


def test_unwitnessed_message_and_ack() -> None:
    past_the_proxy = [request for request in CLEAN.transmitted if request.message_id != "m2"]
    assert found(replace(CLEAN, transmitted=tuple(past_the_proxy))) == {"unwitnessed": 1}

    unjudged = [replace(one, row_found=None) for one in CLEAN.transmitted if one.message_id == "a3"]
    transmitted = (*CLEAN.transmitted[:-1], *unjudged)
    assert found(replace(CLEAN, transmitted=transmitted)) == {"unwitnessed": 1}


def test_traffic_counts_each_post_once() -> None:
    first, ack = exchanged(1)
    requests = [
        first,
        replace(first, fault="duplicate", copies=(11, 12), unreachable=1),
        replace(ack, fault="drop-request", copies=()),
        ack,
        replace(ack, kind="Error"),
    ]
    seen = traffic(requests)
    assert (seen.posts, seen.messages, seen.acknowledgements, seen.others) == (5, 2, 2, 1)
    assert (seen.copies, seen.disturbed, seen.unreachable) == (5, 2, 1)
    assert seen.faults == {"drop-request": 1, "duplicate": 1}
    assert seen.disturbed_percent == 40.0
    assert traffic([]).disturbed_percent == 0.0


def test_with_a_router_both_hops_must_be_seen() -> None:
    onward = tuple(
        replace(request, pair="pair-1 c>b", at=request.at + 4, sha256=f"{request.sha256} onward")
        for request in CLEAN.transmitted
    )
    assert found(replace(CLEAN, transmitted=(*CLEAN.transmitted, *onward), hops=2)) == {}
    assert found(replace(CLEAN, hops=2)) == {"unwitnessed": 3}
