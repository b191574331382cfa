"""The checker: from evidence to a verdict, after Jepsen's classes. Imports nothing of the product.

Every class counts what must not be. `delivered` and the others that merely count are no
violations.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .evidence import Delivery, Evidence, Submission, Transmitted
from .sighting import ACKNOWLEDGEMENT, NORMAL

STUCK_AFTER = 60.0
"""Seconds that a due time may have passed, or a queue may wait: a sweep looks every second, but
the worker may have been killed, and a busy computer takes long to start it again."""

PASSED = "pass"


@dataclass(frozen=True, slots=True)
class Violations:
    lost: int
    """A submit returned, or a receiver accepted or acknowledged; it was never delivered, and no
    MSH has it still to send or to deliver. While one has, it is late, which is no violation."""
    duplicated: int
    """Deliveries beyond the first of a message."""
    unexpected: int
    """Delivered, but no submit of it ever returned."""
    out_of_order: int
    """Delivered after a message of its pair, or of its conversation, that was submitted later;
    where the agreements have an order."""
    premature_ack: int
    """Acknowledged while the receiver's database had no row of it."""
    overlap: int
    """First seen on the wire while as many messages of its pair as its window allows were not
    acknowledged: one, or more of ebMS 2.0."""
    altered: int
    """Copies of one message that differ, and payloads that differ from their file."""
    stuck: int
    """Lanes with open messages that are not suspended and for which nothing is due."""
    silent_suspend: int
    """Suspensions, and messages held, without an incident."""
    unwitnessed: int
    """Delivered and acknowledged, but never seen by the proxy with its Ack: the classes above
    cannot judge it."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went through the proxy. `unreachable`: copies for which the target was down."""

    posts: int
    messages: int
    acknowledgements: int
    others: int
    copies: int
    disturbed: int
    unreachable: int
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def disturbed_percent(self) -> float:
        return round(100 * self.disturbed / self.posts, 1) if self.posts else 0.0


def judge(evidence: Evidence) -> Violations:
    return Violations(
        lost=len(lost(evidence)),
        duplicated=duplicated(evidence.deliveries),
        unexpected=len(_ids(evidence.deliveries) - _ids(evidence.submissions)),
        out_of_order=out_of_order(evidence.submissions, evidence.deliveries)
        if evidence.ordered
        else 0,
        premature_ack=sum(request.row_found is False for request in evidence.transmitted),
        overlap=overlap(evidence.transmitted, evidence.window, evidence.held),
        altered=len(altered_copies(evidence.transmitted)) + len(altered_payloads(evidence)),
        stuck=stuck(evidence),
        silent_suspend=silent_suspend(evidence),
        unwitnessed=len(unwitnessed(evidence)),
    )


def lost(evidence: Evidence) -> set[str]:
    """The MessageIds that somebody was promised, no application got and no MSH still has."""
    return _missing(evidence) - _open(evidence)


def late(evidence: Evidence) -> Counter[str]:
    """Of what was promised and not delivered yet: how many messages are where, in which state."""
    where: dict[str, list[str]] = defaultdict(list)
    for one in sorted(evidence.under_way, key=lambda one: one.where):
        where[one.message_id].append(one.where)
    return Counter(", ".join(where[each]) for each in _missing(evidence) & where.keys())


def _missing(evidence: Evidence) -> set[str]:
    acknowledged = {
        request.ref_to_message_id
        for request in evidence.transmitted
        if request.kind == ACKNOWLEDGEMENT
    }
    promised = _ids(evidence.submissions) | evidence.accepted | acknowledged
    return promised - _ids(evidence.deliveries)


def _open(evidence: Evidence) -> set[str]:
    return {one.message_id for one in evidence.under_way}


def duplicated(deliveries: Iterable[Delivery]) -> int:
    counts = Counter(delivery.message_id for delivery in deliveries)
    return sum(count - 1 for count in counts.values())


def out_of_order(submissions: Iterable[Submission], deliveries: Iterable[Delivery]) -> int:
    """First deliveries that came after one of their conversation, or of their pair, which their
    producer had submitted later."""
    submitted = {submission.message_id: submission for submission in submissions}
    highest: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    late = 0
    for delivery in deliveries:
        submission = submitted.get(delivery.message_id)
        if delivery.message_id in seen or submission is None:
            continue
        seen.add(delivery.message_id)
        line = delivery.pair, submission.conversation
        late += submission.order < highest.get(line, -1)
        highest[line] = max(submission.order, highest.get(line, -1))
    return late


def overlap(transmitted: Iterable[Transmitted], window: int = 1, held: Collection[str] = ()) -> int:
    """First sights of a message while `window` others of its pair had no Ack transmitted yet. What
    was `held` for an operator had left its place to another."""
    open_messages: dict[str, set[str]] = defaultdict(set)
    seen: set[str] = set()
    overlapping = 0
    for _, request in sorted(_wire_events(transmitted), key=lambda event: event[0]):
        if request.kind == ACKNOWLEDGEMENT:
            open_messages[request.pair].discard(request.ref_to_message_id)
        elif request.message_id not in seen:
            seen.add(request.message_id)
            overlapping += len(open_messages[request.pair]) >= window
            if request.message_id not in held:
                open_messages[request.pair].add(request.message_id)
    return overlapping


def _wire_events(transmitted: Iterable[Transmitted]) -> Iterable[tuple[int, Transmitted]]:
    """A message counts from when it came to the proxy, an Ack from when it left."""
    for request in transmitted:
        if request.kind == NORMAL:
            yield request.at, request
        elif request.kind == ACKNOWLEDGEMENT:
            yield from ((copy, request) for copy in request.copies)


def altered_copies(transmitted: Iterable[Transmitted]) -> set[str]:
    """MessageIds, of messages or signals, that the proxy saw with two bodies on one hop."""
    bodies: dict[tuple[str, str], set[str]] = defaultdict(set)
    for request in transmitted:
        bodies[request.pair, request.message_id].add(request.sha256)
    return {
        message_id for (_, message_id), hashes in bodies.items() if message_id and len(hashes) > 1
    }


def altered_payloads(evidence: Evidence) -> set[str]:
    files = {submission.message_id: submission.sha256 for submission in evidence.submissions}
    return {
        delivery.message_id
        for delivery in evidence.deliveries
        if delivery.sha256 != files.get(delivery.message_id, delivery.sha256)
    }


def stuck(evidence: Evidence) -> int:
    return sum(
        lane.open_messages > 0
        and lane.state != "suspended"
        and (lane.overdue is None or lane.overdue > STUCK_AFTER)
        and lane.still > STUCK_AFTER
        for lane in evidence.lanes
    )


def silent_suspend(evidence: Evidence) -> int:
    now = sum(
        (lane.state == "suspended" or lane.held > 0) and not lane.open_incident
        for lane in evidence.lanes
    )
    return now + sum(not suspension.incident for suspension in evidence.suspensions)


def unwitnessed(evidence: Evidence) -> set[str]:
    """Deliveries that the proxy did not see, message and Ack, on every hop of their way. Of what
    is still open its Ack may be still to come."""
    seen = {(r.pair, r.message_id) for r in evidence.transmitted if r.kind == NORMAL}
    judged = {
        (request.pair, request.ref_to_message_id)
        for request in evidence.transmitted
        if request.kind == ACKNOWLEDGEMENT and request.row_found is not None
    }
    hops = Counter(message_id for _, message_id in seen & judged)
    delivered = _ids(evidence.deliveries) - _open(evidence)
    return {each for each in delivered if hops[each] < evidence.hops}


def traffic(transmitted: Iterable[Transmitted]) -> Traffic:
    requests = list(transmitted)
    kinds = Counter(request.kind for request in requests)
    faults = Counter(request.fault for request in requests)
    return Traffic(
        posts=len(requests),
        messages=kinds[NORMAL],
        acknowledgements=kinds[ACKNOWLEDGEMENT],
        others=len(requests) - kinds[NORMAL] - kinds[ACKNOWLEDGEMENT],
        copies=sum(len(request.copies) for request in requests),
        disturbed=len(requests) - faults[PASSED],
        unreachable=sum(request.unreachable for request in requests),
        faults={fault: count for fault, count in sorted(faults.items()) if fault != PASSED},
    )


def _ids(things: Iterable[Submission] | Iterable[Delivery]) -> set[str]:
    return {thing.message_id for thing in things}
