"""Many POSTs at once: bounds, fairness between partners, and the end."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from msh.protocol.attempt import AttemptOutcome
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier, Finished
from msh.transport.job import Job
from tests.peer import Peer, silence, status
from tests.waiting import wait_until

Results = SimpleQueue[Finished]
MakeJob = Callable[..., Job]


def test_every_job_comes_back_once_with_its_key(
    carrier: Carrier, results: Results, job: MakeJob
) -> None:
    carrier.submit(job(key=number, partner_id=number % 7) for number in range(50))
    keys = [results.get(timeout=20).job.key for _ in range(50)]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(range(50))
    assert results.empty()
    assert carrier.under_way() == 0


def test_a_partner_s_jobs_beyond_its_places_wait(
    carrier: Carrier, results: Results, job: MakeJob, peer: Peer
) -> None:
    peer.always(silence())
    carrier.submit(job(key=number) for number in range(AT_ONCE_PER_PARTNER - 1))
    assert carrier.free(1) == 1
    assert carrier.full() == set()
    carrier.submit(job(key=number) for number in range(3))
    assert carrier.free(1) == 0
    assert carrier.full() == {1}
    peer.received.wait_for(lambda r: len(r) == AT_ONCE_PER_PARTNER)
    with Peer() as another:
        carrier.submit([job(key="other", partner_id=2, url=another.address)])
        assert results.get(timeout=10).job.key == "other"
    assert len(peer.received) == AT_ONCE_PER_PARTNER
    peer.release()
    peer.received.wait_for(lambda r: len(r) == AT_ONCE_PER_PARTNER + 2)
    peer.release()


def test_the_bytes_under_way_are_those_of_jobs_that_have_not_come_back(
    carrier: Carrier, results: Results, job: MakeJob, peer: Peer
) -> None:
    peer.script(silence())
    carrier.submit([job(key=1, body=b"x" * 100)])
    peer.received.wait_for(lambda r: len(r) == 1)
    carrier.submit([job(key=2, body=b"x" * 10)])
    assert results.get(timeout=10).job.key == 2
    assert carrier.bytes_under_way() == 100
    peer.release()
    assert results.get(timeout=10).job.key == 1
    assert carrier.bytes_under_way() == 0


def test_jobs_of_a_partner_with_one_place_go_in_order(
    results: Results, job: MakeJob, peer: Peer
) -> None:
    carrier = Carrier(results, at_once_per_partner=1)
    carrier.submit(job(key=number, body=str(number).encode()) for number in range(20))
    assert [results.get(timeout=10).job.key for _ in range(20)] == list(range(20))
    assert [r.body for r in peer.received] == [str(number).encode() for number in range(20)]
    carrier.close()


def test_all_partners_together_are_bounded(results: Results, job: MakeJob, peer: Peer) -> None:
    carrier = Carrier(results, at_once=2)
    peer.script(silence(), silence())
    carrier.submit(job(key=number, partner_id=number) for number in range(3))
    peer.received.wait_for(lambda r: len(r) == 2)
    assert results.empty()
    peer.release()
    assert {results.get(timeout=10).job.key for _ in range(3)} == {0, 1, 2}
    carrier.close()


def test_without_a_place_among_all_no_partner_has_one(
    results: Results, job: MakeJob, peer: Peer
) -> None:
    carrier = Carrier(results, at_once=2)
    carrier.submit(job(partner_id=number) for number in (1, 2))
    for _ in range(2):
        results.get(timeout=10)  # both are known to answer now
    peer.script(silence(), silence())
    carrier.submit([job(partner_id=1)])
    assert (carrier.free_in_all(), carrier.free(1), carrier.free(2)) == (1, 1, 1)
    carrier.submit([job(partner_id=1)])
    assert (carrier.free_in_all(), carrier.free(2), carrier.full()) == (0, 0, set())
    peer.received.wait_for(lambda r: len(r) == 4)
    peer.release()
    carrier.close(grace=10)


def test_posts_that_take_long_keep_no_other_from_beginning(
    monkeypatch: pytest.MonkeyPatch, results: Results, job: MakeJob, peer: Peer
) -> None:
    monkeypatch.setattr("msh.transport.carrier.SLOW_AFTER", 0.2)
    carrier = Carrier(results, at_once=2)
    peer.script(*(silence() for _ in range(4)))
    carrier.submit(job(key=number, partner_id=number) for number in range(5))
    assert results.get(timeout=10).job.key == 4, "its turn has come though none before it has ended"
    assert carrier.under_way() == 4
    wait_until(lambda: carrier.free_in_all() == 2)  # the last of them takes long a moment later
    assert carrier.full() == set()
    peer.release()
    assert {results.get(timeout=10).job.key for _ in range(4)} == {0, 1, 2, 3}
    carrier.close()


def test_an_address_without_a_transport_fails_with_the_cure(
    carrier: Carrier, results: Results, job: MakeJob
) -> None:
    carrier.submit([job(url="ftp://partner.example/")])
    result = results.get(timeout=10).result
    assert result is not None
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is False
    assert "mailto" in result.detail
    assert "must begin with one of: http, https" in result.detail


def test_close_gives_up_what_is_under_way(results: Results, job: MakeJob, peer: Peer) -> None:
    carrier = Carrier(results)
    peer.script(silence())
    carrier.submit([job()])
    peer.received.wait_for_count(1, lambda r: r.method == "POST")
    carrier.close()
    result = results.get(timeout=1).result
    assert result is not None
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is True
    assert carrier.under_way() == 0


def test_close_grants_time_to_what_is_under_way(results: Results, job: MakeJob, peer: Peer) -> None:
    carrier = Carrier(results)
    peer.script(status(204, delay=0.3))
    carrier.submit([job()])
    carrier.close(grace=10)
    result = results.get(timeout=1).result
    assert result is not None
    assert result.outcome is AttemptOutcome.TRANSMITTED


def test_a_closed_carrier_starts_again(results: Results, job: MakeJob) -> None:
    carrier = Carrier(results)
    carrier.close()
    carrier.submit([job()])
    assert results.get(timeout=10).result is not None
    carrier.close()


@pytest.mark.parametrize("used_before", ["True", "False"])
def test_carrier_made_before_a_fork_works_after_it(peer: Peer, used_before: str) -> None:
    script = f"""
        import os, queue, sys, time
        from msh.transport.carrier import Carrier
        from msh.transport.job import Job

        results = queue.SimpleQueue()
        carrier = Carrier(results)

        def transmit(key):
            job = Job(key, 1, sys.argv[1], "text/plain", b"x", "", 10.0, time.monotonic() + 60)
            carrier.submit([job])
            assert results.get(timeout=10).result.status == 204

        if {used_before}:
            transmit("parent")
        if os.fork() == 0:
            transmit("child")
            os._exit(0 if carrier.under_way() == 0 else 1)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), peer.address]
    assert subprocess.run(command, timeout=30, check=False).returncode == 0
