"""From its second message on a partner is remembered. It is allowed nothing that was refused."""

from typing import Any

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.test import RequestFactory

from msh.endpoint import EndpointApplication, view
from msh.flows.sending import submit
from msh.models import History, InboundMessage, OutboundMessage
from msh.protocol.reason import Refusal
from partners.models import OwnIdentity, Partner
from tests.flows import byhand
from tests.peer import Draft, Peer, acknowledgement, normal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _remembered(peer: Peer) -> None:
    for number in (1, 2):
        assert peer.send(normal(sequence_number=number)).status == 204


def status_from(address: str, peer: Peer, draft: Draft) -> int:
    """The answer to a message that comes from this IP address, in this process."""
    complete = peer.complete(draft)
    request = RequestFactory().post(
        "/ebxml/",
        complete.body,
        content_type=complete.content_type,
        headers={"Authorization": "Bearer token"},
        REMOTE_ADDR=address,
    )
    statuses: list[str] = []
    EndpointApplication(WSGIHandler())(request.environ, lambda status, _: statuses.append(status))  # type: ignore[arg-type]
    return int(statuses[0][:3])


def test_only_what_is_usual_passes_no_view(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_from("127.0.0.1", peer, normal(sequence_number=3)) == 204
    seen, take_post = [], view.take_post

    def count(environ: Any) -> HttpResponse:
        seen.append(environ)
        return take_post(environ)

    monkeypatch.setattr(view, "take_post", count)

    assert status_from("127.0.0.1", peer, normal(sequence_number=4)) == 204
    assert status_from("127.0.0.1", peer, normal(sequence_number=9)) == 204  # an Error follows
    assert not seen
    assert status_from("127.0.0.1", peer, normal().but(body=b"no package")) == 400
    assert len(seen) == 1
    assert InboundMessage.objects.count() == 4


def test_a_remembered_partner_may_not_come_from_other_networks(
    peer: Peer, partner: Partner
) -> None:
    Partner.objects.filter(pk=partner.pk).update(allowed_networks="192.0.2.0/24")
    for number in (3, 4):
        draft = normal(sequence_number=number)
        assert status_from("192.0.2.7", peer, draft) == 204

    assert status_from("198.51.100.7", peer, normal(sequence_number=5)) == 403

    assert InboundMessage.objects.count() == 4


@pytest.mark.parametrize(
    "pair", [{"sender_uri": "http://else.example/"}, {"receiver_uri": "http://else.example/"}]
)
def test_a_remembered_partner_sends_for_its_own_pair_only(peer: Peer, pair: dict[str, str]) -> None:
    refused = peer.send(normal(sequence_number=3, **pair))

    assert refused.status == 403
    assert History.objects.get(event="RequestRefused").code == Refusal.AGREEMENT
    assert InboundMessage.objects.count() == 2


@pytest.mark.requirement("000-014")
@pytest.mark.parametrize(
    "pair", [{"sender_uri": "http://else.example/"}, {"receiver_uri": "http://else.example/"}]
)
def test_a_remembered_partner_acknowledges_for_its_own_pair_only(
    peer: Peer, partner: Partner, pair: dict[str, str]
) -> None:
    agreement = partner.agreements.get()
    message = submit.submit(agreement, "Orders", "New", [])
    byhand.poll()
    parties = {"from_party": partner.uri, "to_party": settings.MSH_URI}
    ack = acknowledgement(message.message_id, **parties)

    assert peer.send(ack.but(**pair)).status == 403
    assert state_of(message) == "in_flight"
    assert peer.send(ack).status == 204
    assert state_of(message) == "acknowledged"


def state_of(message: OutboundMessage) -> str:
    message.refresh_from_db()
    return message.state


def test_a_remembered_partner_is_found_again_when_our_own_uri_has_changed(peer: Peer) -> None:
    OwnIdentity.objects.create(msh_uri="http://renamed.example/")

    assert peer.send(normal(sequence_number=3)).status == 403
    renamed = normal(sequence_number=3, receiver_uri="http://renamed.example/")
    assert peer.send(renamed).status == 204

    OwnIdentity.objects.update(msh_uri="")
    assert peer.send(normal(sequence_number=4)).status == 204
