"""One POST: what goes over the wire, and how each way it can end is reported."""

import asyncio
import math
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from msh.flows.operations.inspection.answers import Answer as Said
from msh.flows.operations.inspection.answers import answer_of
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.http import (
    ANSWER_LIMIT,
    LOCATION_LIMIT,
    WORDS_LIMIT,
    HttpTransport,
    one_line,
    retry_after,
)
from msh.transport.job import Job, Lapse
from tests.certificates import write_certificate
from tests.peer import Answer, Peer, hang_up, reset, silence, status
from tests.silent import dropping

Transmit = Callable[..., Finished]


def result_of(finished: Finished) -> AttemptResult:
    assert finished.result is not None
    return finished.result


@pytest.mark.requirement("000-057", "000-058")
def test_a_job_is_one_post_of_exactly_its_bytes(transmit: Transmit, peer: Peer) -> None:
    body = bytes(range(256)) * 1000
    finished = transmit(body=body, content_type='multipart/related; boundary="x y"')
    assert finished.job.key == "job"
    assert finished.result == AttemptResult(
        AttemptOutcome.TRANSMITTED, status=204, detail="204 No Content"
    )
    (received,) = peer.received
    assert received.method == "POST"
    assert received.path == "/ebxml/"
    assert received.body == body
    assert received.headers["Content-Type"] == 'multipart/related; boundary="x y"'
    assert received.headers["Content-Length"] == str(len(body))
    assert received.headers["Authorization"] == "Bearer token"
    for absent in ("Cookie", "Expect", "Transfer-Encoding", "Content-Encoding", "Accept-Encoding"):
        assert received.headers[absent] is None


def test_without_authorization_there_is_no_header(transmit: Transmit, peer: Peer) -> None:
    transmit(authorization="")
    assert peer.received.all()[0].headers["Authorization"] is None


@pytest.mark.requirement("000-058")
def test_response_body_is_ignored_and_connection_kept(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(200, body=b"<html>thank you</html>"))
    assert result_of(transmit()).outcome is AttemptOutcome.TRANSMITTED
    transmit()
    assert peer.connections == 1


@pytest.mark.requirement("EB-157")
@pytest.mark.parametrize(
    ("size", "handed_back"), [(0, False), (100, True), (101, False), (ANSWER_LIMIT + 1, False)]
)
def test_an_answer_that_is_asked_for_is_handed_back_up_to_its_limit(
    transmit: Transmit, peer: Peer, size: int, handed_back: bool
) -> None:
    body = b"x" * size
    peer.script(status(500, body=body, headers={"Content-Type": "text/xml"}))
    result = result_of(transmit(answer_limit=100))
    assert result.status == 500
    assert result.answer == (("text/xml", body) if handed_back else None)


def test_an_answer_without_end_is_hung_up_on(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(200, body=b"x" * (ANSWER_LIMIT + 1), headers={"Content-Length": "9" * 15}))
    assert result_of(transmit()).outcome is AttemptOutcome.TRANSMITTED
    transmit()
    assert peer.connections == 2


def test_a_status_stands_though_its_body_never_comes(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(413, body=b"x", headers={"Content-Length": "2"}))
    assert result_of(transmit(deadline=0.5)).outcome is AttemptOutcome.REFUSED


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (200, AttemptOutcome.TRANSMITTED),
        (202, AttemptOutcome.TRANSMITTED),
        (302, AttemptOutcome.DOUBTED),
        (400, AttemptOutcome.REFUSED),
        (401, AttemptOutcome.DOUBTED),
        (404, AttemptOutcome.DOUBTED),
        (413, AttemptOutcome.REFUSED),
        (415, AttemptOutcome.REFUSED),
        (422, AttemptOutcome.REFUSED),
        (429, AttemptOutcome.FAILED),
        (503, AttemptOutcome.FAILED),
    ],
)
@pytest.mark.requirement("001-03")
def test_the_status_decides_the_outcome(
    transmit: Transmit, peer: Peer, code: int, outcome: AttemptOutcome
) -> None:
    peer.script(status(code, reason="why not", headers={"Location": "/elsewhere"}))
    result = result_of(transmit())
    assert result.outcome is outcome
    assert result.status == code
    assert result.detail == f"{code} why not" + " (Location: /elsewhere)" * (code == 302)
    assert len(peer.received) == 1  # no redirect was followed, nothing was tried again


@pytest.mark.parametrize("code", [301, 308])
def test_where_a_redirect_points_to_is_recorded_printable_and_short(
    transmit: Transmit, peer: Peer, code: int
) -> None:
    where = "http://b.example/\x7f\xe9/" + "x" * 1000
    peer.script(status(code, headers={"Location": where}))
    result = result_of(transmit())
    _, _, shown = result.detail.partition(" (Location: ")
    assert shown.startswith("http://b.example/?")
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) == LOCATION_LIMIT + len(")")
    assert answer_of(result.detail, result.status) is Said.MOVED
    assert len(peer.received) == 1


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "application/problem+json", None])
def test_text_of_a_refusal_is_recorded(transmit: Transmit, peer: Peer, kind: str | None) -> None:
    body = b"down for maintenance\r\n\tuntil 05:00\x1b[31m\x00" + b"." * ANSWER_LIMIT
    peer.script(status(503, body=body, headers={"Content-Type": kind} if kind else {}))
    detail = result_of(transmit()).detail
    start, words = detail.split(": ", 1)
    assert start.startswith("503 ")
    assert words == "down for maintenance until 05:00?[31m?".ljust(WORDS_LIMIT, ".")


@pytest.mark.parametrize(
    ("code", "reason", "headers"),
    [
        (200, "", {"Content-Type": "text/plain"}),
        (302, "", {"Content-Type": "text/plain"}),
        (503, "", {"Content-Type": "image/png"}),
        (503, "", {"Content-Type": "text/plain", "Content-Encoding": "gzip"}),
        (503, "its own word", {"Content-Type": "text/plain"}),
    ],
)
def test_other_bodies_are_not(
    transmit: Transmit, peer: Peer, code: int, reason: str, headers: dict[str, str]
) -> None:
    peer.script(status(code, reason=reason, body=b"thrown away", headers=headers))
    detail = result_of(transmit()).detail
    assert "thrown away" not in detail
    assert detail.endswith(reason)


def test_body_equal_to_the_reason_phrase_is_recorded_once(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(503))
    detail = result_of(transmit()).detail
    _, phrase = detail.split(" ", 1)
    peer.script(status(503, body=f"{phrase}\n".encode()))
    assert result_of(transmit()).detail == detail


def test_start_of_body_is_kept_if_it_never_ends(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(503, body=b"closed", headers={"Content-Length": "7"}))
    assert result_of(transmit(deadline=0.5)).detail.endswith(": closed")


def test_cookies_are_not_kept(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(204, headers={"Set-Cookie": "a=b; Path=/"}))
    transmit()
    transmit()
    assert peer.received.all()[1].headers["Cookie"] is None


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
    assert "ClientConnectorError" in result.detail
    assert answer_of(result.detail) is Said.CONNECTION


def test_an_unknown_host_sent_nothing(transmit: Transmit) -> None:
    result = result_of(transmit(url="http://no-such-host.invalid/ebxml/"))
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is False
    assert answer_of(result.detail) is Said.NAME


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


def test_response_that_is_not_http_is_a_failure(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        result = result_of(transmit(url=f"http://127.0.0.1:{server.getsockname()[1]}/"))
        thread.join()
    assert result.outcome is AttemptOutcome.FAILED


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
    assert answer_of(result.detail) is Said.TIMEOUT
    assert result.body_sent is False


def test_a_large_body_to_a_peer_that_stops_reading_ends_at_the_deadline(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        result = result_of(transmit(url=url, body=b"x" * 30_000_000, deadline=0.5))
    assert result.outcome is AttemptOutcome.FAILED
    assert result.body_sent is True


def test_a_refusal_before_the_body_is_read_is_taken(transmit: Transmit, peer: Peer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
                done.wait(10)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        result = result_of(transmit(url=url, body=b"x" * 30_000_000))
        done.set()
        thread.join()
    assert result.outcome is AttemptOutcome.REFUSED
    assert result.status == 413


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
    assert answer_of(result.detail) is Said.TLS


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        ("120", "", 120.0),
        ("0", "", 0.0),
        ("-1", "", None),
        ("1.5", "", None),
        ("soon", "", None),
        ("", "", None),
        ("٣", "", None),
        ("Tue, 17 Oct 2000 11:02:00 GMT", "Tue, 17 Oct 2000 11:00:00 GMT", 120.0),
        ("Tue, 17 Oct 2000 11:00:00 GMT", "Tue, 17 Oct 2000 11:02:00 GMT", None),
        ("Tue, 17 Oct 2000 11:00:00 GMT", "", None),
        ("Tue, 99 Oct 2000 11:00:00 GMT", "", None),
        ("99999999999999999999 Oct 99 0:0 2000 11:02:00 99 Z", "", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_on_the_peer_s_clock(
    value: str, date: str, seconds: float | None
) -> None:
    assert retry_after(value, date) == seconds


def test_retry_after_comes_with_the_result(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(503, retry_after=7))
    result = result_of(transmit())
    assert result.retry_after == 7.0
    assert answer_of(result.detail, result.status) is Said.WAIT


def test_one_line_is_printable_ascii_within_the_limit() -> None:
    assert one_line("a\r\nb\x00\x7f\tü\udc80", 100) == "a b?? ??"
    assert one_line("x" * 10, 3) == "xxx"


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
