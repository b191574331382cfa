"""One POST: connections, deadlines, TLS, and how each way without an answer is reported."""

import asyncio
import math
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.reason import Reason
from msh.transport.http import HttpTransport
from msh.transport.job import Job, Lapse
from tests.certificates import write_certificate
from tests.peer import Answer, Peer, hang_up, reset, silence
from tests.silent import dropping
from tests.transport.test_http import Transmit, result_of


def test_proxies_of_the_environment_are_not_used(
    transmit: Transmit, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert result_of(transmit()).outcome is AttemptOutcome.TRANSMITTED


def test_a_refused_connection_sent_nothing(transmit: Transmit, peer: Peer) -> None:
    peer.go_down()
    result = result_of(transmit())
    assert result.outcome is AttemptOutcome.FAILED
    assert result.status is None
    assert result.body_sent is False
    place = urlsplit(peer.address).netloc
    assert result.detail == f"Cannot connect to {place}: Connection refused"
    assert result.reason is Reason.CONNECTION


def test_an_unknown_host_sent_nothing(transmit: Transmit) -> None:
    result = result_of(transmit(url="http://no-such-host.invalid/ebxml/"))
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is False
    assert result.detail.startswith("Host name not found: no-such-host.invalid (")
    assert result.reason is Reason.NAME


def test_a_connection_that_is_never_made_ends_at_the_deadline(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        result = result_of(transmit(url=f"http://127.0.0.1:{address[1]}/", deadline=0.5))
        for filler in fillers:
            filler.close()
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is False
    assert result.detail == "no answer within 0.5 s"


@pytest.mark.parametrize("answer", [hang_up(), hang_up("body"), reset(), reset("body")])
@pytest.mark.requirement("000-065")
def test_a_connection_that_breaks_after_the_write_is_not_tried_again(
    transmit: Transmit, peer: Peer, answer: Answer
) -> None:
    peer.script(answer)
    result = result_of(transmit())
    assert result.outcome is AttemptOutcome.FAILED
    assert result.status is None
    assert result.body_sent is True
    assert result.detail in {
        "Connection closed before the answer",
        "Connection broken: Connection reset by peer",
    }
    assert result.reason is Reason.CUT
    assert len(peer.received) == 1


def test_silence_ends_at_the_deadline(transmit: Transmit, peer: Peer) -> None:
    peer.script(silence())
    began = time.monotonic()
    result = result_of(transmit(deadline=0.4))
    took = time.monotonic() - began
    assert result.outcome is AttemptOutcome.FAILED
    assert result.detail == "no answer within 0.4 s"
    assert result.body_sent is True
    assert 0.4 <= took < 2.0


@pytest.mark.requirement("000-064")
def test_closed_connection_is_replaced_within_the_attempt(transmit: Transmit, peer: Peer) -> None:
    transmit()
    peer.drop_idle()
    result = result_of(transmit())
    assert result.outcome is AttemptOutcome.TRANSMITTED
    assert peer.connections == 2
    assert len(peer.received) == 2


@pytest.mark.requirement("000-064")
def test_the_close_is_seen_even_if_the_event_loop_has_not_read_it(
    peer: Peer, job: Callable[..., Job]
) -> None:
    """The FIN comes in the turn of the loop in which the request is written."""

    def close_unseen() -> None:
        peer.drop_idle()
        time.sleep(0.2)  # the FIN arrives; the loop looks at its sockets only before a turn

    async def scenario() -> AttemptResult | None:
        transport = HttpTransport()
        await transport.post(job())
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, close_unseen)
        result = await loop.create_task(transport.post(job()))
        await transport.close()
        return result

    result = asyncio.run(scenario())
    assert result is not None
    assert result.outcome is AttemptOutcome.TRANSMITTED
    assert len(peer.received) == 2


def test_a_job_whose_time_has_passed_is_not_written(transmit: Transmit, peer: Peer) -> None:
    """As after SIGSTOP: the process wakes with a claim that another worker has taken over."""
    assert transmit(not_after=time.monotonic() - 0.001).result is None
    transmit()
    assert len(peer.received) == 1
    assert peer.received.all()[0].headers["Content-Length"] == "5"


@pytest.mark.parametrize("begins", [True, False])
def test_a_job_that_may_lapse_says_whether_it_has_begun(transmit: Transmit, begins: bool) -> None:
    lapse = Lapse(math.inf if begins else 0.0)
    assert (transmit(lapse=lapse).result is not None, lapse.begun) == (begins, begins)


def test_a_connection_is_waited_for_only_while_the_job_may_be_written(transmit: Transmit) -> None:
    """Where packets are dropped, until the claim is over and not until the deadline of the POST."""
    result = None
    with dropping() as nowhere:
        while result is None:  # the carrier began after the claim was over
            not_after = time.monotonic() + 1.0
            result = transmit(url=nowhere, not_after=not_after, deadline=300.0).result
    assert result.outcome is AttemptOutcome.FAILED
    waited = re.fullmatch(r"no connection within (\S+) s", result.detail)
    assert waited, result.detail
    assert 0 < float(waited[1]) <= 1
    assert result.reason is Reason.TIMEOUT
    assert result.body_sent is False


def test_a_large_body_to_a_peer_that_stops_reading_ends_at_the_deadline(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        result = result_of(transmit(url=url, body=b"x" * 30_000_000, deadline=0.5))
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is True


def test_untrusted_certificate_is_refused(transmit: Transmit, tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(write_certificate(tmp_path))
    with Peer(tls=tls) as peer:
        result = result_of(transmit(url=peer.address))
        assert not peer.received.all()
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is False
    place = peer.address.split("/")[2]
    assert result.detail == f"Certificate not trusted: self-signed certificate ({place})"
    assert result.reason is Reason.TLS


def test_a_server_without_tls_is_named_so(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:
        greeted = thread.submit(greet, server)
        place = f"127.0.0.1:{server.getsockname()[1]}"
        result = result_of(transmit(url=f"https://{place}/"))
        greeted.result()
    assert result.detail.startswith("TLS failed: ")
    assert result.detail.endswith(f" ({place})")
    assert result.reason is Reason.TLS
    assert result.body_sent is False


def greet(server: socket.socket, count: int = 1) -> None:
    """As many clients."""
    for _ in range(count):
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"220 this is not TLS\r\n")
            connection.recv(4096)


@pytest.mark.parametrize("points", ["post-before-write", "post-after-write"])
def test_the_crash_points_stand_on_both_sides_of_the_write(
    peer: Peer, points: str, tmp_path: Path
) -> None:
    """A child process dies there; the peer has the whole message or nothing."""
    crash_file = tmp_path / "crash"
    crash_file.write_text(points)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.transport.post_once", peer.address],
        env={**os.environ, "MSH_CRASH_FILE": str(crash_file)},
        timeout=30,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    if points == "post-before-write":
        assert not peer.received.all()
    else:
        (received,) = peer.received.wait_for_count(1, lambda r: r.method == "POST")
        assert received.body == b"--b--"
