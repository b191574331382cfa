"""Conversations that are sent in order, by chance: the rows agree after each step, and all that was
submitted arrives when everything goes well."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from msh.flows.errors import NotPossible
from msh.flows.operations import change_conversation, change_flight
from msh.flows.operations.cancel import cancel
from msh.models import Flight, OutboundConversation, OutboundMessage
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from msh.transport.job import Job

from .byhand import TRANSMITTED, Carrying
from .flying import BUSY, REFUSED, make_sky
from .test_conversations_out import WRONG, ids, orders

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "by chance")
TALKS = "abc"
STEPS = 60
ROUNDS_TO_HEAL = 60


class Walk:
    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.sky = make_sky(
            ordered=True,
            retries=1,
            window=self.draw.randint(1, 4),
            on_failure=self.draw.choice(("fail", "hold")),
        )
        self.jobs: list[Job] = []
        self.bodies: dict[str, bytes] = {}
        self.started: dict[str, list[tuple[int, int, str]]] = {talk: [] for talk in TALKS}
        """Row id, number and status of what was sent, by conversation."""

    def step(self) -> None:
        often = [self.submit, self.poll, self.poll, self.end, self.acknowledge]
        with suppress(NotPossible):
            self.draw.choice([*often, *often, self.refuse, self.act, self.act, self.let_pass])()
        self.check()

    def submit(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self.sky.submit(conversation_id=self.draw.choice(TALKS))

    def poll(self) -> None:
        jobs = self.sky.poll(Carrying(left=self.draw.randint(0, 8)))
        for job, order, message_id in zip(jobs, orders(jobs), ids(jobs), strict=True):
            if message_id not in self.bodies:
                self.bodies[message_id] = job.body
                row = OutboundMessage.objects.get(message_id=message_id)
                assert order is not None
                number = (row.pk, order.sequence_number, str(order.status))
                self.started[row.conversation_id].append(number)
            assert self.bodies[message_id] == job.body
        self.jobs += jobs

    def end(self) -> None:
        if self.jobs:
            job = self.jobs.pop(self.draw.randrange(len(self.jobs)))
            self.sky.end(job, self.draw.choice((TRANSMITTED, TRANSMITTED, BUSY, REFUSED)))

    def _message(self, **of: object) -> OutboundMessage:
        found = OutboundMessage.objects.filter(**of).select_related("link__partner", "agreement")
        messages = list(found.order_by("pk"))
        if not messages:
            raise NotPossible("there is none")
        return self.draw.choice(messages)

    def acknowledge(self) -> None:
        self.sky.answer(self._message(order_number__isnull=False))

    def refuse(self) -> None:
        self.sky.answer(self._message(order_number__isnull=False), WRONG, acknowledged=False)

    def let_pass(self) -> None:
        self.sky.let_pass(self.draw.choice((1, 61, 200)))

    def act(self) -> None:
        verbs: list[Callable[[], object]] = [
            lambda: change_flight.hold(self._message(), ANN),
            lambda: change_flight.resume(self._message(), ANN),
            lambda: cancel(self._message(), self.draw.choice((None, *Verdict)), ANN),
            lambda: self._restart(self.draw.choice(TALKS)),
        ]
        self.draw.choice(verbs)()

    def _restart(self, talk: str) -> None:
        change_conversation.restart_conversation(self.sky.agreement, talk, ANN)

    def check(self) -> None:
        assert Flight.objects.filter(under_way=True).count() <= self.sky.agreement.window
        stopped = False
        for one in OutboundConversation.objects.all():
            oldest = one.flights.filter(waits_turn=True).order_by("pk").first()
            is_ready = oldest is not None and oldest.state == "ready"
            assert one.head == (oldest.pk if oldest and is_ready else None)
            numbered = OutboundMessage.objects.filter(
                conversation_id=one.conversation_id, order_number__isnull=False
            )
            stops = [*numbered.filter(state="failed"), *numbered.filter(flight__state="held")]
            assert set(one.stopped_by) == {message.message_id for message in stops}
            stopped = stopped or one.state == "stopped"
        assert ("conversation_stopped" in self.sky.incidents()) is stopped

    def check_numbers(self) -> None:
        for sent in self.started.values():
            for (key, number, _), (later, following, status) in pairwise(sent):
                assert later > key
                assert following == (0 if status == "Reset" else number + 1)

    def heals(self) -> None:
        for _ in range(ROUNDS_TO_HEAL):
            failed = OutboundMessage.objects.filter(state="failed", order_number__isnull=False)
            held = OutboundMessage.objects.filter(flight__state="held")
            for message in (*failed, *held):
                change_flight.resume(message, ANN)
            for one in OutboundConversation.objects.filter(broken=True):
                with suppress(NotPossible):
                    self._restart(one.conversation_id)
            self.poll()
            for flight in Flight.objects.filter(attempt__gt=0).select_related("message"):
                self.sky.answer(flight.message)
            self.check()
            if not Flight.objects.exists():
                return
        raise AssertionError("messages are still on their way")


@pytest.mark.requirement("EB-120", "EB-121", "EB-122", "EB-123", "EB-124")
@pytest.mark.parametrize("seed", [3, 7])
def test_whatever_happens_the_rows_agree(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.heals()
    walk.check_numbers()
    assert set(OutboundMessage.objects.values_list("state", flat=True)) <= {
        "acknowledged",
        "cancelled",
        "failed",
    }
