"""One POST: what goes over the wire, and how each answer to it is reported."""

import socket
import threading
from collections.abc import Callable

import pytest

from msh.flows.operations.inspection.answers import Answer as Said
from msh.flows.operations.inspection.answers import answer_of
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.http import ANSWER_LIMIT, LOCATION_LIMIT, WORDS_LIMIT, one_line, retry_after
from tests.peer import Peer, status

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
