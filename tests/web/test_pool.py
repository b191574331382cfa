"""Threads are shared: nobody's requests wait behind all those of another."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Event, current_thread
from typing import Any

from msh.web.pool import SENDER_LIMIT, Pool
from msh.web.senders import Sender

ACME, OTHER = Sender("partner 1", known=True), Sender("partner 2", known=True)


def run(test: Callable[[Pool], Awaitable[None]], threads: int = 4) -> None:
    async def started() -> None:
        pool = Pool(threads, asyncio.get_running_loop())
        await test(pool)
        pool.close()

    asyncio.run(asyncio.wait_for(started(), 30))


def answered(pool: Pool, sender: Sender, work: Callable[[], Any] = lambda: None) -> asyncio.Event:
    done = asyncio.Event()
    assert pool.submit(sender, work, lambda _: done.set())
    return done


def test_a_sender_with_endless_requests_leaves_threads_to_others() -> None:
    async def test(pool: Pool) -> None:
        hold = Event()
        held = [answered(pool, ACME, hold.wait) for _ in range(20)]
        await answered(pool, OTHER).wait()
        assert not any(one.is_set() for one in held)
        hold.set()
        for one in held:
            await one.wait()

    run(test)


def test_many_unknown_senders_leave_a_thread_to_a_known_one() -> None:
    async def test(pool: Pool) -> None:
        hold = Event()
        held = [answered(pool, Sender(f"address {n}"), hold.wait) for n in range(50)]
        await answered(pool, ACME).wait()
        hold.set()
        for one in held:
            await one.wait()

    run(test)


def test_waiting_requests_are_served_in_turn() -> None:
    async def test(pool: Pool) -> None:
        hold = Event()
        first = answered(pool, ACME, hold.wait)
        order: list[str] = []
        ends = [
            answered(pool, sender, partial(order.append, sender.name))
            for sender in (ACME, ACME, ACME, OTHER, OTHER)
        ]
        hold.set()
        for one in (first, *ends):
            await one.wait()
        assert order.index(OTHER.name) <= 1
        assert pool.busy == 0

    run(test, threads=1)


def test_one_sender_cannot_fill_the_queue() -> None:
    async def test(pool: Pool) -> None:
        hold = Event()
        taken = sum(pool.submit(ACME, hold.wait, lambda _: None) for _ in range(500))
        assert taken == SENDER_LIMIT + 2
        other = answered(pool, OTHER)
        hold.set()
        await other.wait()

    run(test)


def test_the_thread_that_worked_last_works_again() -> None:
    async def test(pool: Pool) -> None:
        threads: list[str] = []
        for _ in range(8):
            await answered(pool, ACME, lambda: threads.append(current_thread().name)).wait()
        assert len(set(threads)) == 1

    run(test)
