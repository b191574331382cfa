"""The link-status enquiry: what a partner is told of its own pair, and nobody else (D43)."""

import json
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from msh.flows.operations import change_link
from msh.flows.receiving.link_status import ASKED_AT_ONCE, NoStatus, enquire
from msh.models import InboundMessage
from msh.protocol.link_status import LinkStatus
from msh.store.history import Actor
from partners.models import Credential, Partner, digest_of
from partners.models.partner import OutgoingKind
from tests.peer import Peer, Response, normal

pytestmark = pytest.mark.django_db(transaction=True)


def ask(peer: Peer, path: str = "/ebxml/link-status", **options: object) -> Response:
    return peer.send(normal(), method="GET", path=path, **options)  # type: ignore[arg-type]


@pytest.fixture
def itself(web: str, partner: Partner) -> Partner:
    """A partner whose MSH is ours: what we ask it, the web under test answers as to `acme`."""
    asked = Partner(name="itself", uri="http://itself.example/ebxml/", address=web)
    asked.show(OutgoingKind.BEARER, "token")
    asked.save()
    return asked


def test_an_unused_pair_expects_number_1_in_both_directions(itself: Partner) -> None:
    assert enquire(itself) == LinkStatus(None, "", next_number=1)


@pytest.mark.requirement("000-049")
def test_status_has_last_number_message_id_and_known_ids(
    itself: Partner, partner: Partner, peer: Peer
) -> None:
    messages = [normal(sequence_number=number) for number in (1, 2)]
    for message in messages:
        peer.send(message)
    change_link.start_link(partner, "out", 41, Actor())
    ids = [messages[0].message_id, "a strange id/ü?&"]

    status = enquire(itself, ids)

    assert (status.accepted_number, status.accepted_message_id) == (2, messages[1].message_id)
    assert status.known == {ids[0]: True, ids[1]: False}
    assert (status.expected, status.coming) == (3, 42)
    assert InboundMessage.objects.count() == 2


def test_many_messages_are_asked_about_in_several_enquiries(itself: Partner) -> None:
    ids = [f"{number}-{'x' * 200}" for number in range(3 * ASKED_AT_ONCE + 1)]
    assert enquire(itself, ids).known == dict.fromkeys(ids, False)


class _Slow(BaseHTTPRequestHandler):
    """A partner that takes its time for each question."""

    def do_GET(self) -> None:
        time.sleep(0.4)
        body = b'{"accepted": {}, "sending": {"next_number": 1}, "known": {}, "withheld": []}'
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_all_questions_together_have_one_deadline(
    itself: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person waits for them, in a thread of the web process."""
    monkeypatch.setattr("msh.flows.receiving.link_status.DEADLINE", 1.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as slow:
        Thread(target=slow.serve_forever, daemon=True).start()
        itself.address = f"http://127.0.0.1:{slow.server_port}/ebxml/"
        try:
            with pytest.raises(NoStatus, match="no answer within 1 s"):
                enquire(itself, [str(number) for number in range(20 * ASKED_AT_ONCE)])
        finally:
            slow.shutdown()


@pytest.mark.parametrize(
    "path", ["/ebxml/link-status", "/ebxml/link-status/", "/ebxml/x/link-status"]
)
def test_it_stands_beside_every_name_of_the_endpoint(peer: Peer, path: str) -> None:
    response = ask(peer, path)
    assert response.status == 200
    assert set(json.loads(response.body)) == {"accepted", "sending", "known", "withheld"}


def test_unknown_sender_gets_no_status(peer: Peer) -> None:
    for token in (None, "wrong"):
        response = ask(peer, token=token)
        assert (response.status, response.body) == (401, b"")


def test_status_of_another_partners_pair_is_refused(peer: Peer, partner: Partner) -> None:
    other = Partner.objects.create(name="other", uri="http://other.example/ebxml/")
    Credential.objects.create(partner=other, sha256=digest_of("other"))
    message = normal(sequence_number=1)
    peer.send(message)
    response = ask(peer, f"/ebxml/link-status?message_id={message.message_id}", token="other")
    status = json.loads(response.body)
    assert status["accepted"]["sequence_number"] is None
    assert status["known"] == {message.message_id: False}


def test_only_get_asks(peer: Peer) -> None:
    """A message to a name that is called like it is still a message."""
    assert peer.send(normal(sequence_number=1), path="/ebxml/link-status").status == 204
    assert peer.send(normal(), path="/ebxml/x/link-status").status == 404
    assert ask(peer, "/ebxml/").status == 405


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://127.0.0.1:1/ebxml/", "Cannot connect to 127.0.0.1:1: Connection refused"),
        ("mailto:acme@example.net", "only MSHs reached by HTTP can"),
    ],
)
def test_partner_without_status_is_named_with_the_cure(
    partner: Partner, address: str, why: str
) -> None:
    partner.address = address
    with pytest.raises(NoStatus, match=why) as problem:
        enquire(partner)
    assert "Ask its operator for the last number and MessageId" in str(problem.value)


def test_a_partner_that_is_no_msh_of_this_product(partner: Partner) -> None:
    with Peer() as stranger:
        partner.address = stranger.address
        with pytest.raises(NoStatus, match="204"):
            enquire(partner)
