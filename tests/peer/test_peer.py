"""Two peers that talk to each other: the peer's HTTP, both sides of it."""

import time
from collections.abc import Iterator

import pytest

from . import Answer, Peer, Received, hang_up, normal, reset, silence, status


@pytest.fixture
def peer() -> Iterator[Peer]:
    """The one under test: it answers."""
    with Peer() as peer:
        yield peer


@pytest.fixture
def other(peer: Peer) -> Iterator[Peer]:
    """The one that sends to it."""
    with Peer(msh=peer.address, token="secret", tpa_id="tpa-1") as other:
        peer.msh = peer.msh_uri = other.address
        yield other


def test_a_message_arrives_with_its_sender_s_identity(peer: Peer, other: Peer) -> None:
    response = other.send(normal(sequence_number=7))
    assert (response.status, response.body) == (204, b"")
    (received,) = peer.received.normals()
    assert received.method == "POST"
    assert received.path == "/ebxml/"
    assert received.headers["Authorization"] == "Bearer secret"
    assert received.message.sender_uri == other.uri
    assert received.message.receiver_uri == peer.address
    assert received.message.sequence_number == 7
    assert received.message.tpa_id == "tpa-1"


def test_copies_are_the_same_bytes(peer: Peer, other: Peer) -> None:
    draft = normal()
    other.send(draft)
    other.send(draft)
    first, second = peer.received.copies_of(draft.message_id)
    assert first.body == second.body
    assert first.headers["Content-Type"] == second.headers["Content-Type"]
    (gap,) = peer.received.gaps(draft.message_id)
    assert gap == second.at - first.at > 0


def test_it_acknowledges_reliable_messages_by_itself(peer: Peer, other: Peer) -> None:
    peer.acknowledges = True
    draft = normal()
    other.send(draft)
    other.send(draft)
    other.send(normal(semantics="BestEffort"))
    acks = other.received.wait_for_count(2, Received.is_acknowledgement)
    assert other.received.acknowledgements(of=draft) == acks
    assert acks[0].message.from_party == peer.uri
    assert acks[0].message.message_id != acks[1].message.message_id


def test_acknowledge_and_refuse_by_script(peer: Peer, other: Peer) -> None:
    draft = normal()
    other.send(draft)
    (received,) = peer.received
    peer.acknowledge(received)
    peer.refuse(received, min_retry_secs=9)
    assert other.received.wait_for_acknowledgement(of=draft)
    assert other.received.wait_for_error(of=draft).message.error_code == "TransientError"
    assert other.received.errors(of="another") == []


def test_replies_are_scripted(peer: Peer, other: Peer) -> None:
    peer.replies = lambda received: [normal(action=f"re {received.message.action}")]
    other.send(normal(action="Ask"))
    (reply,) = other.received.wait_for_count(1)
    assert reply.message.action == "re Ask"


def test_answers_are_scripted_in_order(peer: Peer, other: Peer) -> None:
    peer.script(
        status(503, retry_after=3, reason="store down"),
        lambda received: status(400 if received.message.action == "Bad" else 204),
        status(200, body=b"text"),
    )
    busy = other.send(normal())
    assert (busy.status, busy.headers["Retry-After"], busy.error) == (503, "3", "store down")
    assert other.send(normal(action="Bad")).status == 400
    assert other.send(normal()).body == b"text"
    assert other.send(normal()).status == 204


def test_a_late_answer_is_late(peer: Peer, other: Peer) -> None:
    peer.script(status(204, delay=0.2))
    response = other.send(normal())
    assert response.ended_at - response.began_at >= 0.2
    (received,) = peer.received
    assert received.answered_at is not None
    assert received.answered_at - received.at >= 0.2


@pytest.mark.parametrize("answer", [hang_up(), hang_up("body"), hang_up("head"), reset()])
def test_hang_up_by_script(peer: Peer, other: Peer, answer: Answer) -> None:
    peer.script(answer)
    assert other.send(normal()).status == 0
    (received,) = peer.received
    assert received.answered_at is None
    assert bool(received.body) == (answer.hangs_up == "answer")
    assert bool(received.method) == (answer.hangs_up != "head")


def test_silence_lasts_until_released(peer: Peer, other: Peer) -> None:
    peer.script(silence())
    with pytest.raises(TimeoutError):
        other.send(normal(), timeout=0.2)
    assert peer.received.wait_for_count(1)[0].answered_at is None


def test_down_it_refuses_connections_and_comes_up_on_the_same_port(peer: Peer, other: Peer) -> None:
    address = peer.address
    peer.go_down()
    with pytest.raises(ConnectionRefusedError):
        other.send(normal())
    peer.come_up()
    assert peer.address == address
    assert other.send(normal()).status == 204


def test_chunked_and_cut_requests(peer: Peer, other: Peer) -> None:
    draft = normal()
    assert other.send(draft, chunked=True, chunk=10).status == 204
    assert other.send(draft, cut_at=20).status == 0
    (whole,) = peer.received
    assert whole.headers["Transfer-Encoding"] == "chunked"
    assert whole.body == other.complete(draft).body


def test_requests_are_altered_by_script(peer: Peer, other: Peer) -> None:
    other.send(normal(), token=None, path="/ebxml/x/?y", headers={"X-A": "b"}, method="PUT")
    (received,) = peer.received
    assert received.method == "PUT"
    assert received.path == "/ebxml/x/?y"
    assert received.headers["X-A"] == "b"
    assert received.headers["Authorization"] is None


def test_sent_at_once_they_arrive_on_their_own_connections(peer: Peer, other: Peer) -> None:
    draft = normal()
    assert [r.status for r in other.send_at_once([draft] * 4)] == [204] * 4
    assert len({r.connection for r in peer.received.copies_of(draft.message_id)}) == 4


def test_raw_bytes_are_exchanged(peer: Peer, other: Peer) -> None:
    answer = other.exchange(b"POST / HTTP/1.1\r\nContent-Length: 0\r\nA: b\r\n\r\n", ends=True)
    assert answer.startswith(b"HTTP/1.1 204 ")


def test_waiting_fails_with_what_came(peer: Peer, other: Peer) -> None:
    draft = normal()
    other.send(draft)
    began = time.monotonic()
    with pytest.raises(AssertionError, match=f"Normal {draft.message_id} number=1"):
        peer.received.wait_for_acknowledgement(of=draft, timeout=0.1)
    assert time.monotonic() - began >= 0.1
