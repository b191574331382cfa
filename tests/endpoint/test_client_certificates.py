"""Partners that are known by the client certificate that the proxy in front has proven (EB-188)."""

import os
import re
import shutil
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory
from pytest_django import Settings

from demo.stage import free_port
from msh.allowance import guesses
from msh.endpoint import EndpointApplication
from msh.models import InboundMessage
from msh.processes import spawn, stop
from partners.models import Credential, CredentialKind, Partner, digest_of
from tests.certificates import Authority
from tests.peer import Peer, normal
from tests.waiting import wait_until
from tests.web import ROOT, web_process

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.requirement("EB-188")]

PROXY = "10.0.0.5"
THEIRS = Authority("theirs")


def pem(folder: Path, name: str) -> str:
    """A client certificate."""
    text = THEIRS.write(folder / f"{name}.pem", name).read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


@pytest.fixture
def certificate(tmp_path: Path, partner: Partner, settings: Settings) -> str:
    """That of the partner, who has a token besides."""
    settings.MSH_TRUSTED_PROXIES = PROXY
    settings.MSH_CLIENT_CERTIFICATE_HEADER = "X-Client-Certificate"
    certificate = pem(tmp_path, "acme")
    certify(partner, certificate)
    return certificate


@pytest.fixture(autouse=True)
def _no_guesser() -> None:
    guesses.forget()


def certify(partner: Partner, certificate: str) -> None:
    credential = Credential(partner=partner)
    credential.certify(certificate)
    credential.save()


Send = Callable[..., tuple[int, str]]


@pytest.fixture
def send(peer: Peer) -> Send:
    """Send the next message from this address; status and reason of the answer."""
    numbers = iter(range(1, 100))

    def send(
        certificate: str = "", token: str = "", address: str = PROXY, basic: str = ""
    ) -> tuple[int, str]:
        complete = peer.complete(normal(sequence_number=next(numbers)))
        headers = {"X-Forwarded-For": "192.0.2.7"}
        headers |= {"X-Client-Certificate": certificate} if certificate else {}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Authorization": f"Basic {basic}"} if basic else {}
        request = RequestFactory().post(
            "/ebxml/",
            complete.body,
            content_type=complete.content_type,
            headers=headers,
            REMOTE_ADDR=address,
        )
        said: list[tuple[int, str]] = []
        EndpointApplication(WSGIHandler())(
            request.environ,
            lambda status, heads: said.append(
                (int(status[:3]), dict(heads).get("X-MSH-Error", ""))
            ),  # type: ignore[arg-type]
        )
        return said[0]

    return send


def fingerprint(certificate: str) -> str:
    return x509.load_pem_x509_certificate(certificate.encode()).fingerprint(SHA256()).hex()


def test_certificate_alone_finds_the_partner(send: Send, certificate: str) -> None:
    """As nginx, Apache and HAProxy write it; from the second one on the sender is cached."""
    digest = fingerprint(certificate)
    colons = ":".join(digest[at : at + 2] for at in range(0, 64, 2)).upper()
    shown = [quote(certificate), certificate.replace("\n", " ").strip(), digest, colons]
    for each in shown:
        assert send(each) == (204, "")
    assert InboundMessage.objects.count() == len(shown)


@pytest.mark.parametrize("address", ["192.0.2.7", "127.0.0.1", "10.0.0.6"])
def test_header_of_others_than_the_proxy_is_ignored(
    send: Send, certificate: str, address: str
) -> None:
    assert send(quote(certificate), address=address)[0] == 401
    assert send("0" * 64, "token", address=address)[0] == 204


def test_without_the_setting_no_header_counts(
    send: Send, certificate: str, settings: Settings
) -> None:
    settings.MSH_CLIENT_CERTIFICATE_HEADER = ""
    assert send(quote(certificate))[0] == 401
    assert send("0" * 64, "token")[0] == 204


def test_both_must_be_of_the_same_partner(send: Send, certificate: str, tmp_path: Path) -> None:
    other = Partner.objects.create(name="other", uri="http://other.example/")
    Credential.objects.create(partner=other, sha256=digest_of("token of the other"))
    another = pem(tmp_path, "other")
    certify(other, another)
    assert send(quote(certificate), "token")[0] == 204
    for shown, token in (
        (another, "token"),
        (certificate, "token of the other"),
        (certificate, "no token of anybody"),
        (pem(tmp_path, "stranger"), "token"),
        ("nonsense", "token"),
    ):
        assert send(quote(shown), token)[0] == 401
    assert InboundMessage.objects.count() == 1
    assert send("", "token")[0] == 204


def test_bearer_and_basic_stay_possible(send: Send, certificate: str, partner: Partner) -> None:
    """Without a certificate, and beside it."""
    sha256 = digest_of("acme:password")
    Credential.objects.create(partner=partner, kind=CredentialKind.BASIC, sha256=sha256)
    password = b64encode(b"acme:password").decode()
    for beside in ("", quote(certificate)):
        assert send(beside, token="token") == (204, "")
        assert send(beside, basic=password) == (204, "")
    assert send(basic=b64encode(b"acme:another").decode())[0] == 401


def test_unknown_certificate_is_named_in_the_answer(
    send: Send, certificate: str, tmp_path: Path
) -> None:
    stranger = pem(tmp_path, "stranger")
    status, reason = send(quote(stranger))
    assert status == 401
    assert reason.endswith(f"the client certificate of SHA-256 {fingerprint(stranger)}")
    assert send("nonsense")[1].endswith("SHA-256 unreadable")


def test_removed_certificate_is_refused_at_once(send: Send, certificate: str) -> None:
    for _ in range(3):
        assert send(quote(certificate))[0] == 204
    Credential.objects.exclude(pem="").delete()
    assert send(quote(certificate))[0] == 401


def test_sha256_of_a_certificate_is_no_token(send: Send, certificate: str) -> None:
    """Nor is a token whose SHA-256 is known a certificate."""
    assert send(token=fingerprint(certificate))[0] == 401
    assert send(digest_of("token"))[0] == 401


# --- through nginx --------------------------------------------------------------------------------


def nginx_of_the_documentation(folder: Path, port: int, web: int) -> Path:
    """Its first `server` of docs/tls.md, with the addresses and files of the test."""
    text = (ROOT / "docs" / "tls.md").read_text()
    (server,) = re.findall(r"```nginx\n(server \{.*?)```", text, re.DOTALL)
    for written, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/msh.pem", str(folder / "server.pem")),
        ("/etc/ssl/msh.key", str(folder / "server.pem")),
        ("http://10.0.0.7:8000", f"http://127.0.0.1:{web}"),
    ):
        assert written in server
        server = server.replace(written, here)
    file = folder / "nginx.conf"
    places = "".join(
        f"{name}_temp_path {folder / name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file.write_text(
        f"daemon off; pid {folder / 'pid'}; error_log stderr; events {{}}"
        f"http {{ access_log off; {places} {server} }}"
    )
    return file


def nginx_path() -> str:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "nginx is missing: make nginx"
    return program


def test_nginx_of_the_documentation_proves_certificates(
    tmp_path: Path, partner: Partner, peer: Peer, transactional_db: None
) -> None:
    acme, stranger = (THEIRS.write(tmp_path / f"{name}.pem", name) for name in ("acme", "stranger"))
    text = acme.read_text()
    certificate = text[text.index("-----BEGIN CERTIFICATE") :]
    certify(partner, certificate)
    Credential.objects.filter(pem="").delete()
    ours = Authority("ours")
    ours.write(tmp_path / "server.pem", "server")
    port = free_port(0)
    (tmp_path / "web").mkdir()
    with web_process(
        tmp_path / "web",
        MSH_TRUSTED_PROXIES="127.0.0.1",
        MSH_CLIENT_CERTIFICATE_HEADER="X-Client-Certificate",
    ) as web:
        file = nginx_of_the_documentation(tmp_path, port, web)
        log = tmp_path / "nginx.log"
        nginx = spawn([nginx_path(), "-c", str(file), "-p", str(tmp_path)], log=log)
        try:

            def post(number: int, client: Path | None, **headers: str) -> int:
                tls = ssl.create_default_context(cadata=ours.pem)
                if client is not None:
                    tls.load_cert_chain(client)
                complete = peer.complete(normal(sequence_number=number))
                connection = HTTPSConnection("127.0.0.1", port, timeout=20, context=tls)
                given = {"Content-Type": complete.content_type, **headers}
                connection.request("POST", "/ebxml/", complete.body, given)
                status = connection.getresponse().status
                connection.close()
                return status

            wait_until(lambda: listens(port) or nginx.poll() is not None)
            assert nginx.poll() is None, log.read_text()
            assert post(1, acme) == 204
            assert post(2, stranger) == 401
            # What a client writes itself never arrives.
            assert post(2, None, **{"X-Client-Certificate": quote(certificate)}) == 401
            assert post(2, stranger, **{"X-Client-Certificate": quote(certificate)}) == 401
            assert post(2, acme, **{"X-Client-Certificate": "0" * 64}) == 204
        finally:
            stop(nginx, seconds=10)
    assert InboundMessage.objects.count() == 2


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
