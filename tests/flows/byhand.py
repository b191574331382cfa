"""What workers and the carrier do, by hand: no process, no socket."""

from dataclasses import dataclass

from django.db import transaction

from msh.flows.receiving import receive
from msh.flows.send_budget import SendBudget
from msh.flows.sending import sending_loop, transmit
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.receiving.senders import find_sender, remembered_sender
from msh.store.sending import polling
from msh.transport.job import Job
from partners.models import Partner

TRANSMITTED = AttemptResult(AttemptOutcome.TRANSMITTED, status=204)


@dataclass(frozen=True)
class Carrying:
    """What a carrier has left: so many places in all, none for the busy partners; and how many
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


def poll(carrying: Carrying = PLENTY) -> list[Job]:
    """What the sending loop does in one poll, without the carrier."""
    with transaction.atomic():
        budget = SendBudget(carrying)
        places = polling.Places(4, carrying.left, carrying.busy, budget.for_large)
        work = polling.lock_work((), places)
        jobs = sending_loop.claim(work, budget)
        work.links.write()
    return jobs


def hand_over(job: Job, sender: Partner) -> receive.Answer:
    """The bytes of a job reach the other side, where `sender` is who they come from."""
    shown = f"Bearer {sender.name}"
    known = remembered_sender(shown) or find_sender(shown)
    assert known is not None
    answer = receive.receive_fast_path(known, job.content_type, job.body)
    if answer is None:
        known = find_sender(shown)
        assert known is not None
        answer = receive.receive(known, job.content_type, job.body)
    return answer


def end(job: Job, result: AttemptResult = TRANSMITTED) -> None:
    """The job's attempt ended like this."""
    with transaction.atomic():
        ended = [(job.key, result)]
        work = polling.work_of_ended(transmit.partners_of(ended))
        sending_loop.record(work.links, ended)
        work.links.write()
