"""Whom we trust and what we show over TLS, with servers on the loopback and an authority of our own
(EB-189)."""

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from pytest_django import Settings

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.reason import Reason
from msh.transport.job import Access
from msh.transport.tls import TlsUnusable, client_context, our_certificate, why_not_shown
from msh.transport.way import walk_to
from tests.certificates import Authority, server_tls, write_certificate
from tests.peer import Peer
from tests.transport.test_http import Transmit, result_of
from tests.transport.test_http_connections import greet

pytestmark = pytest.mark.requirement("EB-189")

OURS, THEIRS, OTHER = Authority("ours"), Authority("theirs"), Authority("other")
TRUSTING = Access(THEIRS.pem)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Peer]]:
    """A peer whose certificate THEIRS has issued; `clients`: whose certificates it requires."""
    started: list[Peer] = []

    def serve(clients: Authority | None = None, **certificate: Any) -> Peer:
        file = THEIRS.write(tmp_path / f"{len(started)}.pem", "server", **certificate)
        started.append(Peer(tls=server_tls(file, clients)).start())
        return started[-1]

    yield serve
    for one in started:
        one.stop()


Serve = Callable[..., Peer]


def test_authorities_of_the_partner_are_trusted_and_no_others(
    transmit: Transmit, serve: Serve
) -> None:
    peer = serve()
    assert result_of(transmit(url=peer.address, access=TRUSTING)).status == 204
    for access in (Access(OTHER.pem), Access(), None):
        result = result_of(transmit(url=peer.address, access=access))
        assert (result.reason, result.body_sent) == (Reason.TLS, False)
    assert len(peer.received) == 1


def test_bundle_is_trusted_where_a_partner_has_no_authorities(
    transmit: Transmit, serve: Serve, settings: Settings, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(OTHER.pem + THEIRS.pem)
    settings.MSH_CA_BUNDLE = str(bundle)
    url = serve().address
    assert result_of(transmit(url=url, access=Access())).status == 204
    assert result_of(transmit(url=url, access=Access(OTHER.pem))).reason is Reason.TLS
    bundle.write_text(OTHER.pem)
    assert result_of(transmit(url=serve().address, access=Access())).reason is Reason.TLS


def test_certificate_of_the_server_itself_may_be_trusted(
    transmit: Transmit, serve: Serve, tmp_path: Path
) -> None:
    url = serve().address
    pem = halves(tmp_path / "0.pem")[0].decode()
    assert result_of(transmit(url=url, access=Access(pem))).status == 204


@pytest.mark.parametrize(
    "certificate",
    [{"hosts": ("other.example",)}, {"hosts": ()}, {"days": (-3, -2)}, {"days": (2, 3)}],
)
def test_other_host_names_and_times_are_refused(
    transmit: Transmit, serve: Serve, certificate: dict[str, Any]
) -> None:
    peer = serve(**certificate)
    result = result_of(transmit(url=peer.address, access=TRUSTING))
    assert result.outcome is AttemptOutcome.FAILED
    assert (result.reason, result.body_sent) == (Reason.TLS, False)
    assert not peer.received.all()


def test_two_partners_at_one_address_share_no_connection(transmit: Transmit, serve: Serve) -> None:
    """What one of them trusts says nothing about the other."""
    peer = serve()
    assert result_of(transmit(url=peer.address, access=TRUSTING)).status == 204
    other = result_of(transmit(url=peer.address, access=Access(OTHER.pem), partner_id=2))
    assert other.reason is Reason.TLS
    both = Access(OTHER.pem + THEIRS.pem)
    assert result_of(transmit(url=peer.address, access=both, partner_id=2)).status == 204
    assert result_of(transmit(url=peer.address, access=TRUSTING)).status == 204
    connections = [one.connection for one in peer.received.all()]
    assert connections[0] == connections[2] != connections[1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(
    transmit: Transmit, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"))
    tls.minimum_version = tls.maximum_version = version
    with Peer(tls=tls) as peer:
        assert result_of(transmit(url=peer.address, access=TRUSTING)).status == 204


def test_older_tls_is_refused(transmit: Transmit, settings: Settings, tmp_path: Path) -> None:
    """Whatever our ciphers would allow."""
    settings.MSH_TLS_CIPHERS = "ALL:@SECLEVEL=0"
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"))
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with Peer(tls=tls) as peer:
        result = result_of(transmit(url=peer.address, access=TRUSTING))
    assert (result.reason, result.body_sent) == (Reason.TLS, False)


def test_ciphers_are_those_of_the_setting(
    transmit: Transmit, serve: Serve, settings: Settings, tmp_path: Path
) -> None:
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with Peer(tls=tls) as peer:
        settings.MSH_TLS_CIPHERS = "ECDHE-ECDSA-AES256-GCM-SHA384"
        assert result_of(transmit(url=peer.address, access=TRUSTING)).reason is Reason.TLS
        settings.MSH_TLS_CIPHERS = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"
        assert result_of(transmit(url=peer.address, access=TRUSTING)).status == 204


# --- our certificate ----------------------------------------------------------------------------


def sent(result: AttemptResult) -> bool:
    return result.status == 204


def test_our_certificate_is_shown_to_partners_that_ask_for_one(
    transmit: Transmit, serve: Serve, settings: Settings, tmp_path: Path
) -> None:
    peer = serve(OURS)
    assert result_of(transmit(url=peer.address, access=TRUSTING)).reason is Reason.TLS
    settings.MSH_CLIENT_CERTIFICATE = str(OTHER.write(tmp_path / "wrong.pem", "msh"))
    assert result_of(transmit(url=peer.address, access=TRUSTING)).reason is Reason.TLS
    settings.MSH_CLIENT_CERTIFICATE = str(OURS.write(tmp_path / "right.pem", "msh"))
    assert sent(result_of(transmit(url=peer.address, access=TRUSTING)))
    assert len(peer.received) == 1


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Path:
    found = tmp_path / "clients"
    found.mkdir()
    settings.MSH_CLIENT_CERTIFICATES = str(found)
    return found


def test_a_partner_is_shown_the_certificate_of_its_name_and_others_that_of_all(
    transmit: Transmit, serve: Serve, settings: Settings, tmp_path: Path, folder: Path
) -> None:
    """Each over connections of its own, whoever came first."""
    settings.MSH_CLIENT_CERTIFICATE = str(OTHER.write(tmp_path / "all.pem", "all"))
    OURS.write(folder / "acme.pem", "acme")
    acme, globex = Access(THEIRS.pem, certificate="acme"), Access(THEIRS.pem, certificate="globex")
    certificate, key = halves(OURS.write(tmp_path / "two.pem", "globex"))
    (folder / "globex.pem").write_bytes(certificate)
    (folder / "globex.key").write_bytes(key)
    peer, other = serve(OURS), serve(OTHER)
    for access, at_peer in ((acme, True), (TRUSTING, False), (globex, True), (acme, True)):
        assert sent(result_of(transmit(url=peer.address, access=access))) is at_peer
        assert sent(result_of(transmit(url=other.address, access=access))) is not at_peer
    connections = [one.connection for one in peer.received.all()]
    assert connections[0] == connections[2] != connections[1]


def test_refusal_names_the_certificate_that_the_partner_was_shown(
    transmit: Transmit, serve: Serve, folder: Path
) -> None:
    OTHER.write(folder / "acme.pem", "acme")
    access = Access(THEIRS.pem, certificate="acme")
    url = serve(OURS).address
    detail = result_of(transmit(url=url, access=access)).detail
    shown = f"We showed subject CN=acme, issuer CN=other, {dates((-1, 30))}."
    assert "Our certificate is refused" in detail
    assert shown in detail
    *_, step = walk_to(url, 10.0, access)
    assert (step.went, step.detail) == (False, detail)


def test_a_named_certificate_that_is_replaced_is_read_again_and_one_that_is_gone_stays(
    transmit: Transmit, serve: Serve, folder: Path, tmp_path: Path
) -> None:
    file, access = OTHER.write(folder / "acme.pem", "acme"), Access(THEIRS.pem, certificate="acme")
    url = serve(OURS).address
    assert not sent(result_of(transmit(url=url, access=access)))
    replace(file, OURS.write(tmp_path / "next.pem", "acme").read_bytes())
    assert sent(result_of(transmit(url=url, access=access)))
    file.unlink()
    assert sent(result_of(transmit(url=url, access=access)))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("acme", "acme.pem: No such file or directory"),
        ("secret", "secret.pem: there is no certificate in PEM"),
        ("certificate", "certificate.pem: there is no private key in PEM without a password"),
        ("../ours", "'../ours' is not of letters, digits, dots, _ and - alone"),
        ("..", "'..' is not of letters"),
    ],
)
def test_a_named_certificate_that_cannot_be_shown_fails_the_attempt(
    transmit: Transmit, serve: Serve, folder: Path, tmp_path: Path, name: str, why: str
) -> None:
    ours = OURS.write(tmp_path / "ours.pem", "msh")
    (folder / "certificate.pem").write_bytes(halves(ours)[0])
    (folder / "secret.pem").write_text("s3cret")
    peer = serve()
    result = result_of(transmit(url=peer.address, access=Access(THEIRS.pem, certificate=name)))
    assert (result.reason, result.body_sent) == (Reason.TLS, False)
    assert why in result.detail
    assert why in why_not_shown(name)
    assert "s3cret" not in result.detail
    assert not peer.received.all()


def test_a_name_without_a_folder_is_no_certificate(settings: Settings) -> None:
    settings.MSH_CLIENT_CERTIFICATES = ""
    assert why_not_shown("acme") == "MSH_CLIENT_CERTIFICATES is not set"


def test_our_certificate_is_shown_to_partners_alone(
    transmit: Transmit,
    serve: Serve,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not to a consumer or webhook, whatever it asks for."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(THEIRS.pem)
    settings.MSH_CA_BUNDLE = str(bundle)
    settings.MSH_CLIENT_CERTIFICATE = str(OURS.write(tmp_path / "ours.pem", "msh"))
    assert not sent(result_of(transmit(url=serve(OURS).address, access=None)))


def test_replaced_certificate_is_read_again(
    transmit: Transmit, serve: Serve, settings: Settings, tmp_path: Path
) -> None:
    file = OTHER.write(tmp_path / "ours.pem", "msh")
    settings.MSH_CLIENT_CERTIFICATE = str(file)
    url = serve(OURS).address
    assert not sent(result_of(transmit(url=url, access=TRUSTING)))
    replace(file, OURS.write(tmp_path / "next.pem", "msh").read_bytes())
    assert sent(result_of(transmit(url=url, access=TRUSTING)))


def replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.replace(file)


def halves(file: Path) -> tuple[bytes, bytes]:
    """Certificate and key."""
    text = file.read_bytes()
    begin = text.index(b"-----BEGIN CERTIFICATE")
    return text[begin:], text[:begin]


def test_while_one_of_two_files_is_replaced_the_pair_before_stays(
    settings: Settings, tmp_path: Path
) -> None:
    first, second = (halves(OURS.write(tmp_path / "both.pem", name)) for name in ("a", "b"))
    certificate, key = tmp_path / "msh.crt", tmp_path / "msh.key"
    certificate.write_bytes(first[0])
    key.write_bytes(first[1])
    settings.MSH_CLIENT_CERTIFICATE, settings.MSH_CLIENT_KEY = str(certificate), str(key)
    before = client_context()
    assert client_context() is before
    replace(certificate, second[0])
    assert client_context() is before
    assert our_certificate().subject.rfc4514_string() == "CN=a"  # type: ignore[union-attr]
    replace(key, second[1])
    assert client_context() is not before
    assert our_certificate().subject.rfc4514_string() == "CN=b"  # type: ignore[union-attr]


def test_what_cannot_be_used_is_named_and_nothing_of_a_key_shown(
    settings: Settings, tmp_path: Path
) -> None:
    ours = OURS.write(tmp_path / "ours.pem", "msh")
    certificate, key = tmp_path / "msh.crt", tmp_path / "msh.key"
    certificate.write_bytes(halves(ours)[0])
    key.write_bytes(halves(OURS.write(tmp_path / "other.pem", "other"))[1])
    not_pem = tmp_path / "secret.txt"
    not_pem.write_text("secret")
    for names, expected in [
        (("", str(key), "", ""), "MSH_CLIENT_KEY is set, and MSH_CLIENT_CERTIFICATE is not"),
        (("/no/such", "", "", ""), "/no/such: No such file or directory"),
        ((str(not_pem), "", "", ""), f"{not_pem}: there is no certificate in PEM"),
        ((str(certificate), "", "", ""), "without a password"),
        ((str(certificate), str(not_pem), "", ""), f"{not_pem}: there is no private key"),
        (
            (str(certificate), str(key), "", ""),
            f"{key}: the key is not that of the certificate {certificate}",
        ),
        (("", "", str(not_pem), ""), f"{not_pem}: there is no certificate in PEM"),
        (("", "", "", "NONSENSE"), "MSH_TLS_CIPHERS: OpenSSL has no cipher of 'NONSENSE'"),
    ]:
        (
            settings.MSH_CLIENT_CERTIFICATE,
            settings.MSH_CLIENT_KEY,
            settings.MSH_CA_BUNDLE,
            settings.MSH_TLS_CIPHERS,
        ) = names
        with pytest.raises(TlsUnusable) as problem:
            client_context()
        assert expected in str(problem.value)


def test_key_with_a_password_is_refused_and_nobody_asked(
    settings: Settings, tmp_path: Path
) -> None:
    ours = OURS.write(tmp_path / "ours.pem", "msh")
    certificate, private = halves(ours)
    encrypted = serialization.load_pem_private_key(private, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    ours.write_bytes(certificate + encrypted)
    settings.MSH_CLIENT_CERTIFICATE = str(ours)
    with pytest.raises(TlsUnusable, match="there is no private key in PEM without a password"):
        client_context()


# --- what is said of a handshake that failed ------------------------------------------------------


def dates(days: tuple[int, int]) -> str:
    begin, end = (datetime.now(UTC) + timedelta(days=each) for each in days)
    return f"valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("certificate", "access", "fault", "cure"),
    [
        (
            {"days": (-3, -2)},
            TRUSTING,
            "certificate has expired",
            "The partner's operator must renew it, or one of its authorities.",
        ),
        (
            {"days": (2, 3)},
            TRUSTING,
            "certificate is not yet valid",
            "It is not valid yet: compare the clocks, or wait.",
        ),
        (
            {"hosts": ("a.example", "b.example")},
            TRUSTING,
            "IP address mismatch, certificate is not valid for '127.0.0.1'",
            "It is for a.example, b.example: correct the address, or have it renewed.",
        ),
        (
            {},
            Access(OTHER.pem),
            "unable to get local issuer certificate",
            (
                "Its authority is not in the CA certificates of the partner, or the server does not"
                " send the certificates between them."
            ),
        ),
        (
            {},
            Access(),
            "unable to get local issuer certificate",
            (
                "Its authority is not in MSH_CA_BUNDLE or the CA certificates of the partner, or"
                " the server does not send the certificates between them."
            ),
        ),
    ],
)
def test_certificate_that_is_not_trusted_is_named_with_what_to_do(
    transmit: Transmit,
    serve: Serve,
    certificate: dict[str, Any],
    access: Access,
    fault: str,
    cure: str,
) -> None:
    url = serve(**certificate).address
    valid = dates(certificate.get("days", (-1, 30)))
    expected = (
        f"Certificate not trusted: {fault} ({url.split('/')[2]}). The server showed subject"
        f" CN=server, issuer CN=theirs, {valid}. {cure}"
    )
    assert result_of(transmit(url=url, access=access)).detail == expected
    _, step = walk_to(url, 10.0, access)
    assert (step.name, step.went, step.detail) == ("TLS", False, expected)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_refusal_of_our_certificate_names_it(
    transmit: Transmit, settings: Settings, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """With TLS 1.3 the server refuses it when the handshake is over on our side."""
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"), OURS)
    tls.maximum_version = version
    settings.MSH_CLIENT_CERTIFICATE = str(OTHER.write(tmp_path / "msh.pem", "msh"))
    with Peer(tls=tls) as peer:
        for body in (b"x", b"x" * 3_000_000):
            result = result_of(transmit(url=peer.address, access=TRUSTING, body=body))
            assert result.detail == (
                f"Our certificate is refused: the server says unknown authority"
                f" ({peer.address.split('/')[2]}). We showed subject CN=msh, issuer CN=other,"
                f" {dates((-1, 30))}. Ask the partner's operator whose certificates it takes."
            )
            assert result.reason is Reason.TLS
        *_, step = walk_to(peer.address, 10.0, TRUSTING)
        assert (step.went, step.detail) == (False, result.detail)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (
            ssl.TLSVersion.TLSv1_2,
            (
                "TLS failed: the server says handshake failure ({place}). It takes none of our"
                " ciphers (MSH_TLS_CIPHERS), or asks for a client certificate"
                " (MSH_CLIENT_CERTIFICATE)."
            ),
        ),
        (
            ssl.TLSVersion.TLSv1_3,
            (
                "TLS failed: the server says certificate required ({place}), and we showed none."
                " Set MSH_CLIENT_CERTIFICATE and MSH_CLIENT_KEY, or the client certificate of the"
                " partner."
            ),
        ),
    ],
)
def test_client_certificate_that_is_missing_is_asked_for(
    transmit: Transmit, tmp_path: Path, version: ssl.TLSVersion, words: str
) -> None:
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"), OURS)
    tls.maximum_version = version
    with Peer(tls=tls) as peer:
        expected = words.format(place=peer.address.split("/")[2])
        assert result_of(transmit(url=peer.address, access=TRUSTING)).detail == expected
        *_, step = walk_to(peer.address, 10.0, TRUSTING)
        assert (step.went, step.detail) == (False, expected)


def test_no_version_in_common_is_named_so(transmit: Transmit, tmp_path: Path) -> None:
    tls = server_tls(THEIRS.write(tmp_path / "server.pem", "server"))
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with Peer(tls=tls) as old:
        detail = result_of(transmit(url=old.address, access=TRUSTING)).detail
    assert "no version in common" in detail
    assert "We speak TLS 1.2 and 1.3." in detail


def test_server_without_tls_is_named_so(transmit: Transmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:
        greeted = thread.submit(greet, server, 2)
        place = f"127.0.0.1:{server.getsockname()[1]}"
        detail = result_of(transmit(url=f"https://{place}/", access=TRUSTING)).detail
        greeted.result()
    expected = f"TLS failed: the server does not speak TLS there ({place}). Correct the address."
    assert detail == expected


def test_authorities_without_a_certificate_fail_the_attempt(transmit: Transmit) -> None:
    result = result_of(transmit(url="https://127.0.0.1:9/", access=Access("nonsense")))
    assert (result.reason, result.body_sent) == (Reason.TLS, False)
    assert "the CA certificates of the partner" in result.detail


def test_a_self_signed_certificate_is_trusted_once_it_is_named(
    transmit: Transmit, tmp_path: Path
) -> None:
    file = write_certificate(tmp_path)
    pem = halves(file)[0].decode()
    with Peer(tls=server_tls(file)) as peer:
        assert result_of(transmit(url=peer.address, access=Access())).reason is Reason.TLS
        assert sent(result_of(transmit(url=peer.address, access=Access(pem))))
