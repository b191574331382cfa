"""What workers and the carrier do, by hand: no process, no socket."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from msh.flows.hints import EVERYTHING, Promise
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.send_budget import SendBudget
from msh.flows.sending import lanes, promised, sending_loop, signals
from msh.flows.sending.kinds import Ended
from msh.flows.sending.sending_loop import OF_LINKS
from msh.flows.wake_up_listener import WakeUpListener
from msh.flows.worker_loop import WorkerLoop
from msh.models import OutboundLink, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.receiving.senders import cached_sender, find_sender
from msh.store.sending import polling
from msh.store.sending.best_effort import end_best_effort
from msh.store.sending.links import OutboundLinks
from msh.transport.job import Job
from msh.transport.slots import Room
from partners.models import Partner

TRANSMITTED = AttemptResult(AttemptOutcome.TRANSMITTED, status=204, detail="204 No Content")
"""As HTTP gives it: see `tests/transport/test_http.py`."""


@dataclass(frozen=True)
class Carrying:
    """What a carrier has left: so many slots in all, none for the busy partners; and how many
    bytes it holds."""

    left: int = 100
    busy: frozenset[int] = frozenset()
    held: int = 0

    def free_in_all(self) -> int:
        return self.left

    def free(self, partner_id: int) -> int:
        return 0 if partner_id in self.busy else min(4, self.left)

    def bytes_under_way(self) -> int:
        return self.held


PLENTY = Carrying()


class KeepingCarrier:
    """Has this room whatever it is given, and keeps the jobs."""

    def __init__(self) -> None:
        self.taken: list[Job] = []
        self.room = PLENTY

    def take(self) -> list[Job]:
        jobs, self.taken = self.taken, []
        return jobs

    def submit(self, jobs: Iterable[Job]) -> None:
        self.taken.extend(jobs)

    def rooms(self, _: int) -> list[Room]:
        return [Room(self.room.busy, only=False, slots=self.room.left)]

    def take_no_more(self) -> None:
        self.room = Carrying(0)

    def free_in_all(self) -> int:
        return self.room.free_in_all()

    def free(self, partner_id: int) -> int:
        return self.room.free(partner_id)

    def bytes_under_way(self) -> int:
        return self.room.bytes_under_way()

    def under_way(self) -> int:
        return len(self.taken)


def poll(carrying: Carrying = PLENTY, *, wake_ups_are_lost: bool = False) -> list[Job]:
    """What the sending loop does in one poll, without the carrier; and with the signals that were
    claimed with their message, as if their wake-up had just come, and likewise with copies that
    were promised, unless their wake-ups were lost."""
    budget = SendBudget(carrying)
    copies = [] if wake_ups_are_lost else _poll_promised(budget)
    with transaction.atomic():
        slots = polling.Slots(4, carrying.left, carrying.busy, budget.for_large)
        work = polling.lock_work((), slots)
        jobs = sending_loop.claim(OF_LINKS, work, budget)
        work.write()
    return [*copies, *jobs, *_poll_claimed(budget)]


def _poll_promised(budget: SendBudget) -> list[Job]:
    links = OutboundLink.objects.filter(promised=True)
    if not links.update(due=timezone.now() + timedelta(minutes=1)):  # tests may be slow
        return []
    named = [
        Promise(link.partner_id, link.in_flight_id or 0, link.attempt, settings.MSH_HTTP_DEADLINE)
        for link in links
        if budget.reserve(link.partner_id)
    ]
    loaded = promised.load(named)
    for job in loaded.jobs:
        job.note_begin()
    with transaction.atomic():
        locked = OutboundLinks.lock(loaded.partners)
        kept = lanes.keep(locked, loaded.jobs)
        locked.write()
    for one in loaded.ended:
        end_all([one])
    return kept


def _poll_claimed(budget: SendBudget) -> list[Job]:
    with transaction.atomic():
        work = polling.load_claimed(just_claimed())
        jobs, _ = signals.jobs_of_claimed(work, budget)
        work.signals.clear()
        work.under_way = jobs
        signals.claim(work, budget)
        work.write()
    return jobs


def hold_no_longer(loop: sending_loop.SendingLoop) -> None:
    """The time of what the loop holds is over."""
    loop._outcomes.keep(list(loop._outcomes))


def just_claimed() -> list[int]:
    """The signals that wait for the worker that their wake-up is for."""
    within_a_second = {"due__gt": timezone.now(), "due__lt": timezone.now() + timedelta(seconds=1)}
    claimed = Signal.objects.filter(sending=True, tries=1, pending=1, **within_a_second)
    return list(claimed.order_by("pk").values_list("pk", flat=True))


def hand_over(job: Job, sender: Partner) -> receive.Answer:
    """The bytes of a job reach the other side, where `sender` is who they come from."""
    shown = f"Bearer {sender.name}"
    known = cached_sender(shown) or find_sender(shown)
    assert known is not None
    answer = receive.receive_fast_path(known, Incoming(job.content_type, job.body))
    if answer is None:
        known = find_sender(shown)
        assert known is not None
        answer = receive.receive(known, Incoming(job.content_type, job.body))
    return answer


def end(job: Job, result: AttemptResult = TRANSMITTED) -> None:
    """The job's attempt ended like this."""
    end_all([Ended(job.key, result)])


def end_all(ended: Sequence[Ended]) -> None:
    """These attempts ended, and are recorded together."""
    with transaction.atomic():
        ids = {one.copy.partner_id for one in ended if one.copy.writes_link}
        links = OutboundLinks.lock(ids) if ids else OutboundLinks.none()
        sending_loop.record(OF_LINKS, links, ended)
        links.write()


def end_lost_leases() -> None:
    """As each poll does once a second."""
    end_best_effort((lost, None) for lost in polling.lock_lost())


def run_until_quiet(loop: WorkerLoop, seconds: float = 0.05) -> None:
    """As its worker does, in this thread, until there was nothing to do for so many seconds."""
    with WakeUpListener(loop.kind) as listener:
        loop._hints |= EVERYTHING
        loop._busy_at = busy_at = time.monotonic()
        while loop.turn(listener) or time.monotonic() - busy_at < seconds:
            busy_at = max(busy_at, loop._busy_at)
