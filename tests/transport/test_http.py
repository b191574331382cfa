"""One POST: what goes over the wire, and how each answer to it is reported."""

import gzip
import re
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.reason import Reason
from msh.transport.carrier import Finished
from msh.transport.coding import decoded
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
        AttemptOutcome.TRANSMITTED,
        status=204,
        detail="204 No Content",
        status_line="204 No Content",
    )
    (received,) = peer.received
    assert received.method == "POST"
    assert received.path == "/ebxml/"
    assert received.body == body
    assert received.headers["Content-Type"] == 'multipart/related; boundary="x y"'
    assert received.headers["Content-Length"] == str(len(body))
    assert received.headers["Authorization"] == "Bearer token"
    for absent in ("Cookie", "Expect", "Transfer-Encoding", "Content-Encoding"):
        assert received.headers[absent] is None
    assert received.headers["Accept-Encoding"] == "identity"


def test_without_authorization_there_is_no_header(transmit: Transmit, peer: Peer) -> None:
    transmit(authorization="")
    assert peer.received.all()[0].headers["Authorization"] is None


@pytest.mark.requirement("000-058")
def test_response_body_is_ignored_and_connection_kept(transmit: Transmit, peer: Peer) -> None:
    peer.script(status(200, body=b"<html>thank you</html>"))
    assert result_of(transmit()).outcome is AttemptOutcome.TRANSMITTED
    transmit()
    assert peer.connections == 1


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (
            "<head><style>h1 {}</style></head><h1>Down</h1><!-- 7 --><p>To&nbsp;6 &lt;CET&gt;.</p>",
            "Down To 6 <CET>.",
        ),
        ("<!DOCTYPE html><title>Down &amp; out</title><script>go(1 < 2)", "Down & out"),
        ("<head><title>Closed</title>" + "<style>" + "x" * 9_000, "Closed"),
        ("<p>a < b and <b", "a < b and"),
    ],
)
def test_a_page_of_an_error_is_told_without_its_tags(
    transmit: Transmit, peer: Peer, page: str, words: str
) -> None:
    headers = {"Content-Type": "text/html; charset=utf-8"}
    peer.script(status(503, body=page.encode(), headers=headers))
    assert result_of(transmit()).detail == f"503 Service Unavailable: {words}"


def test_a_page_that_is_no_error_is_told_too(transmit: Transmit, peer: Peer) -> None:
    """An MSH answers without a page: what does is a proxy or a hotel's log-in."""
    headers = {"Content-Type": "text/html"}
    page = b"<head><title>Guests</title></head><p>Log in to the guest network</p>"
    peer.script(status(200, body=page, headers=headers))
    result = result_of(transmit())
    assert result.detail == "200 OK: Log in to the guest network"
    assert result.outcome == AttemptOutcome.TRANSMITTED


def test_what_is_no_page_is_told_as_it_is(transmit: Transmit, peer: Peer) -> None:
    headers = {"Content-Type": "text/plain"}
    peer.script(status(503, body=b"no <b>thanks</b>", headers=headers))
    assert result_of(transmit()).detail == "503 Service Unavailable: no <b>thanks</b>"


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
    assert result.reason is Reason.MOVED
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


@pytest.mark.parametrize("size", [WORDS_LIMIT, WORDS_LIMIT + 1, 2000])
def test_the_last_words_of_a_long_refusal_are_kept(
    transmit: Transmit, peer: Peer, size: int
) -> None:
    """What decides stands at the end of many a sentence."""
    last = " element Service."
    body = "The message was refused because of" + "x" * (size - 34 - len(last)) + last
    peer.script(status(400, body=body.encode(), headers={"Content-Type": "text/plain"}))
    detail = result_of(transmit()).detail
    assert detail.startswith("400 Bad Request: The message was refused")
    assert detail.endswith(last)
    assert ("..." in detail) is (size > WORDS_LIMIT)


def gzipped(text: bytes) -> bytes:
    return gzip.compress(text)


def raw_deflated(text: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("identity", bytes),
        ("utf-8", bytes),
        ("", bytes),
        ("gzip", gzipped),
        ("X-GZIP", gzipped),
        ("deflate", zlib.compress),
        ("deflate", raw_deflated),
        ("deflate, gzip", lambda text: gzipped(zlib.compress(text))),
        ("identity, gzip", gzipped),
    ],
)
def test_an_answer_that_is_compressed_is_read(
    transmit: Transmit, peer: Peer, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    headers = {"Content-Type": "text/xml", "Content-Encoding": encoding}
    peer.script(status(200, body=pack(b"<answer/>" * 10), headers=headers))
    assert result_of(transmit(answer_limit=100)).answer == ("text/xml", b"<answer/>" * 10)

    peer.script(status(400, body=pack(b"the Service is unknown"), headers=headers))
    assert result_of(transmit()).detail == "400 Bad Request: the Service is unknown"


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("gzip", gzip.compress(b"x" * 10_000_000), "of more than 100 bytes, or cut short"),
        ("gzip", gzip.compress(b"x" * 50)[:-9], "of more than 100 bytes, or cut short"),
        ("br", b"\x0b\x02\x80x\x03", "Content-Encoding br"),
        ("zstd, gzip", gzip.compress(b"x"), "Content-Encoding zstd, gzip"),
        ("gzip, gzip, gzip, gzip", b"x", "Content-Encoding gzip, gzip, gzip, gzip"),
        ("gzip", b"<answer/>", "Content-Encoding gzip"),
    ],
    ids=["bomb", "cut short", "br", "zstd below", "too many", "not true"],
)
def test_an_answer_that_cannot_be_read_is_mentioned(
    transmit: Transmit, peer: Peer, encoding: str, body: bytes, why: str
) -> None:
    """It is bounded, whatever it would become; and the words say that it was there."""
    headers = {"Content-Type": "text/xml", "Content-Encoding": encoding}
    peer.script(status(200, body=body, headers=headers))
    result = result_of(transmit(answer_limit=100_000 if len(body) > 100 else 100))
    assert result.answer is None
    why = why.replace("100 bytes", "100000 bytes") if len(body) > 100 else why
    said = f"200 OK, answer of {len(body)} bytes, text/xml: not read ({why})"
    assert (result.outcome, result.detail) == (AttemptOutcome.TRANSMITTED, said)


def test_a_bomb_takes_no_memory() -> None:
    bomb = gzip.compress(gzip.compress(b"x" * 100_000_000))
    tracemalloc.start()
    try:
        text, whole = decoded(bomb, "gzip, gzip", 10_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (text, whole) == (b"x" * 10_000, False)
    assert peak < 1_000_000


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
        (" 5 ", "", 5.0),
        ("31536000", "", 31_536_000.0),
        ("9" * 400, "", 1e9),
        ("9" * 8000, "", 1e9),
        ("120, 60", "", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "Tue, 17 Oct 2000 11:00:00 GMT", 1e9),
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
    assert result.reason is Reason.WAIT


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (204, "number 22 came, 13 to 21 missing: expected 13", Reason.NUMBERS),
        (204, "MessageId m was accepted before with other content", Reason.NOT_ACCEPTED),
        (200, "number 22 came, 13 to 21 missing: expected 13", Reason.NO_ACKNOWLEDGEMENT),
        (403, "number 22 came, 13 to 21 missing: expected 13", Reason.CREDENTIALS),
        (403, "sender us is unknown here", Reason.SENDER),
        (204, "sender us is unknown here", Reason.SENDER),
        (502, "sender us is unknown here", Reason.GATEWAY),
    ],
)
def test_a_refusal_of_a_message_that_was_carried_is_read_when_it_arrives(
    transmit: Transmit, peer: Peer, code: int, said: str, reason: Reason
) -> None:
    peer.script(status(code, headers={"X-MSH-Error": said}))
    assert result_of(transmit()).reason is reason


def test_one_line_is_printable_ascii_within_the_limit() -> None:
    assert one_line("a\r\nb\x00\x7f\tü\udc80", 100) == "a b?? ??"
    assert one_line("x" * 10, 3) == "xxx"


def test_a_body_that_is_still_going_out_at_the_deadline_is_told(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and reads nothing
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        result = result_of(transmit(url=url, body=b"x" * 30_000_000, deadline=0.5))
        assert (result.outcome, result.body_sent) == (AttemptOutcome.FAILED, True)
        told = re.fullmatch(
            r"no answer within 0\.5 s: (\d+) of 30000000 bytes had been sent", result.detail
        )
        assert told is not None
        assert 0 < int(told[1]) < 30_000_000
        assert result.reason is Reason.TIMEOUT

        result = result_of(transmit(url=url, body=b"x", deadline=0.5))
        assert result.detail == "no answer within 0.5 s"
