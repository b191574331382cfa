"""Partners that are reached through an HTTP proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from msh.protocol.attempt import AttemptOutcome
from msh.protocol.reason import Reason
from msh.transport import enquiry, way
from msh.transport.job import Access
from tests.certificates import Authority, server_tls
from tests.http_proxy import HttpProxy
from tests.peer import Peer, status
from tests.transport.test_http import Transmit, result_of

THEIRS = Authority("theirs")


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Peer]:
    with Peer(tls=server_tls(THEIRS.write(tmp_path / "server.pem", "server"))) as peer:
        yield peer


@pytest.mark.parametrize("login", ["", "us:pass"])
def test_http_goes_through_the_proxy(transmit: Transmit, peer: Peer, login: str) -> None:
    with HttpProxy(login) as proxy:
        access = Access(proxy=proxy.url)
        for body in (b"first", b"second"):
            assert result_of(transmit(access=access, body=body)).status == 204
        assert proxy.requests[0] == f"POST {peer.address} HTTP/1.1"
    assert [one.body for one in peer.received.all()] == [b"first", b"second"]
    assert "Proxy-Authorization" not in (peer.received.all()[0].headers if not login else {})


@pytest.mark.parametrize("login", ["", "us:p%40ss"])
def test_https_goes_through_a_tunnel(transmit: Transmit, secure: Peer, login: str) -> None:
    with HttpProxy(login.replace("%40", "@")) as proxy:
        url = f"http://{login}{'@' if login else ''}{proxy.place}"
        access = Access(THEIRS.pem, url)
        for body in (b"first", b"second"):
            assert result_of(transmit(url=secure.address, access=access, body=body)).status == 204
        place = secure.address.split("/")[2]
        assert proxy.requests == [f"CONNECT {place} HTTP/1.1"]
        assert "Bearer" not in proxy.heads[0]
    for one in secure.received.all():
        assert one.headers["Authorization"] == "Bearer token"
        assert "Proxy-Authorization" not in one.headers


def test_connections_with_and_without_proxy_are_not_mixed(transmit: Transmit, peer: Peer) -> None:
    with HttpProxy() as proxy:
        transmit()
        transmit(access=Access(proxy=proxy.url))
        transmit(access=Access())
        assert len(proxy.requests) == 1
    assert len(peer.received) == 3


@pytest.mark.parametrize("is_tls", [False, True])
def test_refusal_of_the_proxy_is_named_so(transmit: Transmit, secure: Peer, is_tls: bool) -> None:
    with HttpProxy("us:right") as proxy:
        access = Access(THEIRS.pem, f"http://us:wr0ng@{proxy.place}")
        url = secure.address if is_tls else secure.address.replace("https", "http")
        result = result_of(transmit(url=url, access=access))
    assert result.outcome is not AttemptOutcome.TRANSMITTED
    assert "407 Proxy Authentication Required" in result.detail
    assert "wr0ng" not in repr(result)
    if is_tls:
        assert (result.reason, result.body_sent) == (Reason.CONNECTION, False)
    assert not secure.received.all()


def test_a_proxy_that_is_not_there_is_named_so(transmit: Transmit, secure: Peer) -> None:
    with HttpProxy() as proxy:
        gone = proxy.place
    access = Access(THEIRS.pem, f"http://us:secret@{gone}")
    result = result_of(transmit(url=secure.address, access=access))
    assert result.detail == f"Cannot connect to the HTTP proxy {gone}: Connection refused"
    assert (result.reason, result.body_sent) == (Reason.CONNECTION, False)


def test_link_local_addresses_are_not_asked_for_by_proxy(transmit: Transmit) -> None:
    with HttpProxy() as proxy:
        for url in ("http://169.254.169.254/", "https://[fe80::1]/"):
            result = result_of(transmit(url=url, access=Access(proxy=proxy.url)))
            assert "is a link-local address" in result.detail
            assert result.body_sent is False
        assert proxy.requests == []


def test_certificate_is_named_through_a_tunnel(transmit: Transmit, secure: Peer) -> None:
    with HttpProxy("us:secret") as proxy:
        access = Access(Authority("other").pem, proxy.url)
        result = result_of(transmit(url=secure.address, access=access))
    assert result.reason is Reason.TLS
    assert "subject CN=server, issuer CN=theirs" in result.detail


def test_way_through_a_proxy(secure: Peer, peer: Peer) -> None:
    with HttpProxy("us:secret") as proxy:
        access = Access(THEIRS.pem, proxy.url)
        steps = way.walk_to(secure.address, 5.0, access)
        assert [(step.name, step.went) for step in steps] == [("proxy", True), ("TLS", True)]
        (step,) = way.walk_to(peer.address, 5.0, access)
        assert (step.name, step.went) == ("proxy", True)
        wrong = Access(THEIRS.pem, f"http://us:wr0ng@{proxy.place}")
        (step,) = way.walk_to(secure.address, 5.0, wrong)
        expected = f"the proxy {proxy.place} answered 407 Proxy Authentication Required"
        assert (step.name, step.went, step.detail) == ("proxy", False, expected)


def test_questions_go_through_the_proxy(peer: Peer) -> None:
    peer.always(status(200, body=b"answer"))
    with HttpProxy("us:secret") as proxy:
        assert enquiry.ask([peer.address], "", 5.0, Access(proxy=proxy.url)) == [b"answer"]
        assert len(proxy.requests) == 1
