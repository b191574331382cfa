"""What comes in by HTTP, and what every answer looks like (D35, D49, D59)."""

import socket
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.test import RequestFactory
from pytest_django.fixtures import Settings

from msh.endpoint import view
from msh.models import InboundMessage
from partners.models import Credential, CredentialKind, Partner, digest_of
from tests.endpoint.conftest import MESSAGE_LIMIT
from tests.peer import OMIT, Payload, Peer, Response, normal
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def assert_refused(response: Response, status: int, reason: str) -> None:
    """Status, an empty body, and a reason on one line of plain ASCII."""
    assert (response.status, response.body) == (status, b"")
    assert response.headers["Content-Type"] is None
    assert reason in response.error
    assert response.error.isascii()
    assert response.error.isprintable()
    assert len(response.error) <= 200
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("000-057", "000-058", "EB-154")
def test_a_message_is_taken_with_204_and_an_empty_body(peer: Peer) -> None:
    response = peer.send(normal())
    assert (response.status, response.body, response.error) == (204, b"", "")
    assert InboundMessage.objects.count() == 1


def test_remembered_partner_expires_with_its_credentials(peer: Peer, partner: Partner) -> None:
    for number in (1, 2, 3):  # from the second one on the partner is remembered
        assert peer.send(normal(message_id=f"m{number}", sequence_number=number)).status == 204
    Partner.objects.filter(pk=partner.pk).update(allowed_networks="192.0.2.0/24")
    assert peer.send(normal(message_id="m4", sequence_number=4)).status == 403
    Partner.objects.filter(pk=partner.pk).update(allowed_networks="")
    assert peer.send(normal(message_id="m4", sequence_number=4)).status == 204
    Partner.objects.filter(pk=partner.pk).update(
        uri="http://moved.example/", uri_normalised="http://moved.example/"
    )
    assert peer.send(normal(message_id="m5", sequence_number=5)).status == 403
    Credential.objects.filter(partner=partner).delete()
    assert peer.send(normal(message_id="m5", sequence_number=5)).status == 401
    assert InboundMessage.objects.count() == 4


@pytest.mark.parametrize("path", ["/ebxml/", "/ebxml", "/ebxml/acme/", "/ebxml/Any.name"])
def test_the_endpoint_has_many_names(peer: Peer, path: str) -> None:
    assert peer.send(normal(), path=path).status == 204


@pytest.mark.requirement("000-057")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("token", ["token", "wrong"])
def test_only_post_is_taken(peer: Peer, method: str, token: str) -> None:
    response = peer.send(normal(), method=method, token=token)
    assert_refused(response, 405, "POST")
    assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize("shown", [None, "", "Bearer", "Bearer wrong", "token", "Basic ?"])
def test_unknown_sender_is_refused(peer: Peer, shown: str | None) -> None:
    headers = {} if shown is None else {"Authorization": shown}
    response = peer.send(normal(), token=None, headers=headers)
    assert_refused(response, 401, "unknown credentials")
    assert "Bearer" in response.headers["WWW-Authenticate"]


def guess(peer: Peer, token: str) -> tuple[int, str, str]:
    """Status, Retry-After and X-MSH-Error of a POST from an address that nobody else has."""
    parts = urlsplit(peer.msh)
    elsewhere = HTTPConnection(
        str(parts.hostname), parts.port, timeout=30, source_address=("127.0.0.5", 0)
    )
    with closing(elsewhere):
        elsewhere.request("POST", parts.path, b"x", {"Authorization": f"Bearer {token}"})
        response = elsewhere.getresponse()
        headers = response.headers
        return response.status, headers["Retry-After"] or "", headers["X-MSH-Error"] or ""


def test_guessing_address_is_limited_and_no_other(peer: Peer) -> None:
    assert guess(peer, "token")[0] == 415  # known from now on, wherever it comes from
    answers = [guess(peer, f"guess {number}") for number in range(200)]
    assert answers[0][0] == 401
    refused = next(answer for answer in answers if answer[0] != 401)
    assert refused[:2] == (429, "1")
    assert "too many failed authentications from 127.0.0.5" in refused[2]
    assert guess(peer, "token")[0] == 415
    assert peer.send(normal(), token="one mistake").status == 401
    wait_until(lambda: guess(peer, "guess")[0] == 401, what="another guess that is looked at")


def test_basic_is_offered_and_taken(peer: Peer, partner: Partner) -> None:
    Credential.objects.create(
        partner=partner, kind=CredentialKind.BASIC, sha256=digest_of("acme:password")
    )
    refused = peer.send(normal(), token=None)
    assert 'Basic realm="' in refused.headers["WWW-Authenticate"]
    shown = {"Authorization": "Basic YWNtZTpwYXNzd29yZA=="}
    assert peer.send(normal(), token=None, headers=shown).status == 204


@pytest.mark.parametrize(("networks", "status"), [("127.0.0.0/8", 204), ("192.0.2.0/24", 403)])
def test_a_partner_comes_from_its_networks(
    peer: Peer, partner: Partner, networks: str, status: int
) -> None:
    partner.allowed_networks = networks
    partner.save()
    response = peer.send(normal())
    assert response.status == status
    if status == 403:
        assert_refused(response, 403, "acme")


def test_nothing_is_read_before_the_partner_is_known(peer: Peer) -> None:
    """The answer comes while the body is still held back."""
    head = (
        "POST /ebxml/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n"
        "Authorization: Bearer wrong\r\n\r\n"
    )
    parts = urlsplit(peer.msh)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as sending:
        sending.sendall(head.encode())
        assert sending.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity, gzip"])
def test_an_encoded_body_is_refused(peer: Peer, encoding: str) -> None:
    assert_refused(
        peer.send(normal(), headers={"Content-Encoding": encoding}), 415, "Content-Encoding"
    )


def test_the_identity_encoding_is_none(peer: Peer) -> None:
    assert peer.send(normal(), headers={"Content-Encoding": "Identity"}).status == 204


@pytest.mark.parametrize(
    "content_type", ["", "text/html", "multipart/form-data; boundary=x", "application/json", "x"]
)
def test_another_media_type_is_refused(peer: Peer, content_type: str) -> None:
    assert_refused(peer.send(normal(content_type=content_type)), 415, "")


@pytest.mark.parametrize("chunked", [False, True])
def test_the_size_limit_is_exact(peer: Peer, chunked: bool) -> None:
    filler = len(peer.complete(normal(payloads=[Payload(b"")])).body)
    for size, status in ((MESSAGE_LIMIT, 204), (MESSAGE_LIMIT + 1, 413)):
        draft = peer.complete(normal(payloads=[Payload(b"x" * (size - filler))]))
        assert len(draft.body) == size
        assert peer.send(draft, chunked=chunked).status == status


def test_too_large_is_refused_by_its_announcement(peer: Peer) -> None:
    """Not a byte of the body is sent."""
    response = peer.send(normal(), content_length=MESSAGE_LIMIT + 1, cut_at=0)
    assert_refused(response, 413, str(MESSAGE_LIMIT))


def test_an_endless_chunked_body_is_refused_at_the_limit(peer: Peer) -> None:
    body = b"x" * (MESSAGE_LIMIT + 50_000)
    response = peer.send(normal(body=body), chunked=True, cut_at=MESSAGE_LIMIT + 20_000)
    assert_refused(response, 413, str(MESSAGE_LIMIT))


@pytest.mark.parametrize("chunk", [1, 1000, 65536])
def test_a_chunked_message_is_taken(peer: Peer, chunk: int) -> None:
    draft = normal(payloads=[Payload(bytes(range(256)) * 10)])
    assert peer.send(draft, chunked=True, chunk=chunk).status == 204
    assert InboundMessage.objects.get().message_id == draft.message_id


def test_without_any_length_it_is_411(peer: Peer) -> None:
    assert_refused(peer.send(normal(body=b""), content_length=None), 411, "Content-Length")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_cut_short_is_not_taken(peer: Peer, chunked: bool) -> None:
    response = peer.send(normal(), chunked=chunked, cut_at=200)
    assert response.status in {0, 400}
    assert response.body == b""
    assert not InboundMessage.objects.exists()


def test_an_empty_body_is_unreadable(peer: Peer) -> None:
    assert_refused(peer.send(normal(body=b"")), 400, "")


def test_a_wrong_pair_is_403(peer: Peer) -> None:
    assert_refused(peer.send(normal(sender_uri="http://else.example/")), 403, "SenderURI")


def test_a_refused_message_was_transmitted_and_says_why(peer: Peer) -> None:
    response = peer.send(normal(sequence_number=7))
    assert_refused(response, 204, "7")


def test_a_reason_is_one_ascii_line_whatever_the_message_says(peer: Peer) -> None:
    response = peer.send(normal(sender_uri="http://ü\u2028\nX-Evil: 1" + "y" * 500))
    assert_refused(response, 403, "SenderURI")
    assert response.headers["X-Evil"] is None


@pytest.mark.requirement("000-003", "001-14")
def test_a_store_that_does_not_answer_is_503(peer: Peer) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE partners_partner IN ACCESS EXCLUSIVE MODE")
        response = peer.send(normal())
    assert_refused(response, 503, "nothing was stored")
    assert int(response.headers["Retry-After"]) > 0
    assert peer.send(normal()).status == 204


def test_a_store_that_restarted_is_used_again(peer: Peer) -> None:
    assert peer.send(normal()).status == 204
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert peer.send(normal(sequence_number=2)).status == 204


def test_an_error_of_ours_is_an_empty_500(
    partner: Partner, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MSH_MESSAGE_LIMIT = "not a number"
    request = RequestFactory().post(
        "/ebxml/", b"x", content_type="text/plain", headers={"Authorization": "Bearer token"}
    )
    response = view.take_post(request.environ)
    assert (response.status_code, response.content) == (500, b"")
    assert response["X-MSH-Error"] == "internal error, nothing was stored"
    assert "TypeError" in caplog.text


def test_a_strange_host_header_is_no_matter(peer: Peer) -> None:
    assert peer.send(normal(), headers={"Host": "by-another-name.example"}).status == 204


@pytest.mark.parametrize("semantics", [OMIT, "AtMostOnce"])
def test_nothing_is_stored_of_a_refused_message(peer: Peer, semantics: Any) -> None:
    assert_refused(peer.send(normal(semantics=semantics)), 204, "DeliverySemantics")
