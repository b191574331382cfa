"""What one message and one bulk row may cost: a round trip or a row more is seen here, on any
machine. `make bench-work` counts the same between two running MSHs, with what the clock cannot
hide: commits in the write-ahead log, index entries, wake-ups.

When something was made cheaper, lower its bounds.
"""

import math

import pytest
from django.db import connection

from msh.flows import wake_up
from msh.flows.hints import NOTHING, Hints
from msh.flows.sending import outcomes
from msh.flows.sending.prepare import prepare_heading, prepare_message
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.sending.submit_many import Result, submit_all
from msh.flows.wake_up import WakeUp
from msh.protocol.kinds import RouteMode
from msh.protocol.message import Payload
from msh.transport.carrier import Finished
from tests.flows.routing.router import ACK, one, sent_to_router

from .byhand import TRANSMITTED, KeepingCarrier, hold_no_longer
from .chain import make_chain
from .work import Work, rows_by_table
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = 10
ROWS = 1_000
BLOCK = 500
"""Lines of one block of the bulk endpoint."""

EXCHANGE = {"statements": 25, "round trips": 11, "transactions": 8, "rows": 21}
"""For one reliable message, from its submit to its Acknowledgement, on both sides. Nothing is
shared with other messages."""
NEXT = {"statements": 8.2, "round trips": 5.8, "transactions": 5.6, "rows": 18.2}
"""The same for a message that its predecessor's Acknowledgement has put in flight."""
FORWARDED_ACK = {"statements": 14, "round trips": 7, "transactions": 4, "rows": 6}
SUBMIT = {"statements": 1, "round trips": 1, "transactions": 1, "rows": 3}
BULK_ROW = {"statements": 0.014, "round trips": 0.014, "transactions": 0.001, "rows": 3}


def exchange(world: World, messages: int, asked: list[Hints], at_once: int = 1) -> Work:
    """By its wake-ups. So many are submitted `at_once`."""
    work, loop = Work(), SendingLoop()
    carrier = KeepingCarrier()
    loop.carrier = carrier  # type: ignore[assignment]
    loop._leases_at = math.inf  # what it does once a second
    for _ in range(0, messages, at_once):
        for _ in range(at_once):
            with work.of("submit"):
                world.submit()
        with work.of("round after the submit"):
            loop.round(asked.pop())
        asked.clear()
        while carrier.taken:
            job = carrier.taken.pop(0)
            kind = type(job.key).__name__
            with work.of(f"receive {kind}"):
                assert world.hand_over(job).status == 204
            loop.take(Finished(job, TRANSMITTED))
            with work.of(f"round after the {kind}"):
                loop.round(asked.pop() if asked else NOTHING)
    hold_no_longer(loop)
    with work.of("what was held"):
        loop.round(NOTHING)
    return work


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Hints]:
    """What wake-ups have named for the loop."""
    monkeypatch.setattr(outcomes, "HOLD", 0.0)
    hints: list[Hints] = []

    class Messenger:
        @staticmethod
        def send(asked: wake_up.Asked) -> None:
            hints.extend(n for kind, n in asked.items() if kind is WakeUp.TRANSMIT)

    monkeypatch.setattr(wake_up, "_messenger", Messenger)
    return hints


def test_work_for_an_exchanged_message(asked: list[Hints]) -> None:
    world = make_world()
    exchange(world, MESSAGES, asked)  # what is read once

    work = exchange(world, MESSAGES, asked)

    assert len(world.received()) == 2 * MESSAGES
    assert world.link.state == "idle"
    work.require(MESSAGES, EXCHANGE)


def test_work_for_the_next_message_of_a_queue(
    asked: list[Hints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 2xx is held until there is something else to write, however slow the machine is: within a
    second it would be written alone, before others may claim the copy."""
    world = make_world()
    exchange(world, MESSAGES, asked)
    exchange(world, MESSAGES, asked, at_once=MESSAGES)
    monkeypatch.setattr(outcomes, "HOLD", 600.0)
    monkeypatch.setattr(outcomes, "BEFORE_LAPSE", -600.0)

    work = exchange(world, MESSAGES, asked, at_once=MESSAGES)

    assert len(world.received()) == 3 * MESSAGES
    work.require(MESSAGES, NEXT)


def test_tables_that_each_message_changes_are_analyzed_rarely(asked: list[Hints]) -> None:
    """After ANALYZE of a table each session plans its statements anew."""
    world = make_world()
    before = rows_by_table()

    exchange(world, MESSAGES, asked)

    after = rows_by_table()
    changed = {table for table in after if after[table] - before[table] >= MESSAGES}
    assert {"msh_outboundmessage", "msh_outboundlink", "msh_inboundlink"} <= changed
    assert changed - rarely_analyzed() == set()


def rarely_analyzed() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class"
            " WHERE 'autovacuum_analyze_threshold=50000' = ANY(reloptions)"
        )
        return {table for (table,) in cursor.fetchall()}


def test_work_for_the_acknowledgement_of_a_forwarded_message() -> None:
    """More is written than for others; it is decided twice, and not three times."""
    chain, work = make_chain(RouteMode.END_TO_END), Work()
    sent_to_router(chain)
    chain.transmit(one(chain.poll()))
    ack = one(chain.poll())

    with work.of("Acknowledgement"):
        assert chain.hand_over(ack).status == 204

    assert chain.pending_for(chain.from_a) == [ACK]
    work.require(1, FORWARDED_ACK)


def test_work_for_a_submit() -> None:
    world, work = make_world(), Work()
    for _ in range(MESSAGES):
        world.submit()

    for _ in range(MESSAGES):
        with work.of("submit"):
            world.submit()

    work.require(MESSAGES, SUBMIT)


def test_work_for_a_bulk_row() -> None:
    world, work = make_world(), Work()
    world.submit()
    payload = Payload(b"<order/>", label="order.xml")
    heading = prepare_heading(world.agreement, "Orders", "New", None, {})
    new = [prepare_message(heading, [payload]) for _ in range(ROWS)]

    with work.of("bulk"):
        answers = submit_all([new[at : at + BLOCK] for at in range(0, ROWS, BLOCK)])

    assert {answer.result for answer in answers} == {Result.ACCEPTED}
    work.require(ROWS, BULK_ROW)
