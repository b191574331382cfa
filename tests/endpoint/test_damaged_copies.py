"""The draft's messages whose body cannot be read whole, while their header can: copies of what we
have (000-013, D3, D45), and others."""

from collections.abc import Callable
from typing import Any

import pytest

from msh.models import History, InboundMessage, Incident, Signal
from tests.peer import Draft, Payload, Peer, acknowledgement, error, normal

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = b"<order/>"


def _without_closing_boundary(body: bytes) -> bytes:
    return body[: body.rindex(b"\r\n--")]


def _cut_in_the_payload(body: bytes) -> bytes:
    return body[: body.index(ORDER) + 3]


def _in_broken_base64(body: bytes) -> bytes:
    return body.replace(b"binary\r\n\r\n<order/>", b"base64\r\n\r\n<*order/>")


def _with_a_header_twice(body: bytes) -> bytes:
    twice = b"binary\r\nContent-Transfer-Encoding: base64\r\n\r\n<order/>"
    return body.replace(b"binary\r\n\r\n<order/>", twice)


def _with_a_renamed_part(body: bytes) -> bytes:
    at = body.rindex(b"Content-ID: <")
    return body[:at] + body[at:].replace(b"Content-ID: <", b"Content-ID: <other-", 1)


Spoil = Callable[[bytes], bytes]
CUT: list[Spoil] = [_without_closing_boundary, _cut_in_the_payload, _with_a_header_twice]
SPOILT: list[Spoil] = [*CUT, _in_broken_base64, _with_a_renamed_part]


def order(**changes: Any) -> Draft:
    return normal(message_id="m1", payloads=(Payload(ORDER, content_id="order"),), **changes)


def spoilt(peer: Peer, draft: Draft, spoil: Spoil) -> Draft:
    return draft.but(body=spoil(peer.complete(draft).body))


def pending() -> list[tuple[str, str, int]]:
    return list(Signal.objects.values_list("kind", "code", "pending"))


@pytest.mark.requirement("000-013", "000-095")
@pytest.mark.parametrize("spoil", SPOILT)
def test_damaged_copy_of_an_accepted_message_is_acknowledged(peer: Peer, spoil: Spoil) -> None:
    draft = order()
    assert peer.send(draft).status == 204

    response = peer.send(spoilt(peer, draft, spoil))

    assert (response.status, response.error) == (204, "")
    assert pending() == [("Acknowledgement", "", 2)]
    stored = InboundMessage.objects.get()
    assert (stored.duplicates, bytes(stored.payloads.get().content)) == (1, ORDER)
    assert "a copy is damaged" in History.objects.get(event="Note", message_id="m1").detail
    assert not Incident.objects.exists()


@pytest.mark.parametrize("spoil", SPOILT)
def test_intact_message_is_taken_after_a_damaged_first_copy(peer: Peer, spoil: Spoil) -> None:
    draft = order()
    refused = peer.send(spoilt(peer, draft, spoil))
    assert refused.status == (400 if spoil in CUT else 204)
    assert refused.error
    assert not InboundMessage.objects.exists()

    assert peer.send(draft).status == 204

    assert bytes(InboundMessage.objects.get().payloads.get().content) == ORDER


@pytest.mark.requirement("000-099")
@pytest.mark.parametrize("spoil", SPOILT)
def test_damaged_message_under_a_known_id_is_refused(peer: Peer, spoil: Spoil) -> None:
    """Its header says that it is another one: nothing is acknowledged for it."""
    peer.send(order())

    response = peer.send(spoilt(peer, order(action="Other"), spoil))

    assert response.status == (400 if spoil in CUT else 204)
    assert response.error
    assert ("Acknowledgement", "", 1) in pending()


@pytest.mark.parametrize("spoil", SPOILT)
def test_damaged_copy_of_another_pair_is_refused(peer: Peer, spoil: Spoil) -> None:
    draft = order()
    peer.send(draft)

    other = draft.but(sender_uri="http://other.example/ebxml/")
    response = peer.send(spoilt(peer, other, spoil))

    assert response.status == (400 if spoil in CUT else 403)
    assert pending() == [("Acknowledgement", "", 1)]


@pytest.mark.parametrize("spoil", [_without_closing_boundary])
@pytest.mark.parametrize("of", [acknowledgement, error])
def test_damaged_signal_is_refused(peer: Peer, of: Callable[[str], Draft], spoil: Spoil) -> None:
    assert peer.send(spoilt(peer, of("m1"), spoil)).status == 400
