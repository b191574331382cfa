"""Whose address and scheme count when a proxy stands between."""

import ipaddress
import logging
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client
from pytest_django.fixtures import Settings

from msh import checks, proxies
from msh.wsgi import application
from partners.models import Agreement, Credential, Partner, digest_of
from partners.models.networks import networks_of

DOCKER = Path(__file__).resolve().parents[1] / "docker"
PROXIES = "10.0.0.0/8 2001:db8::1"


@pytest.fixture
def trusted(settings: Settings) -> None:
    settings.MSH_TRUSTED_PROXIES = PROXIES


def resolved(peer: str, **headers: str) -> dict[str, Any]:
    environ = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http"}
    environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    proxies.resolve(environ)
    return environ


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "203.0.113.9, 192.0.2.7", "192.0.2.7"),  # the first is what the client said
        ("10.0.0.1", "192.0.2.7, 10.9.9.9", "192.0.2.7"),  # two proxies of ours
        ("10.0.0.1", "10.9.9.9", "10.9.9.9"),
        ("2001:db8::1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:10.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "192.0.2.7, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("192.0.2.1", "192.0.2.7", "192.0.2.1"),  # no proxy of ours
    ],
)
def test_the_last_address_that_is_no_proxy_of_ours_counts(
    trusted: None, peer: str, forwarded: str, address: str
) -> None:
    assert resolved(peer, x_forwarded_for=forwarded)["REMOTE_ADDR"] == address


@pytest.mark.parametrize(
    ("peer", "proto", "scheme"),
    [
        ("10.0.0.1", "https", "https"),
        ("10.0.0.1", "http, https", "https"),
        ("10.0.0.1", "gopher", "http"),
        ("192.0.2.1", "https", "http"),
    ],
)
def test_the_scheme_is_what_a_proxy_of_ours_says(
    trusted: None, peer: str, proto: str, scheme: str
) -> None:
    assert resolved(peer, x_forwarded_proto=proto)["wsgi.url_scheme"] == scheme


def test_headers_of_unlisted_proxies_are_removed(settings: Settings) -> None:
    settings.MSH_TRUSTED_PROXIES = ""
    environ = resolved(
        "127.0.0.1", x_forwarded_for="192.0.2.7", x_real_ip="192.0.2.7", forwarded="for=192.0.2.7"
    )
    assert environ == {"REMOTE_ADDR": "127.0.0.1", "wsgi.url_scheme": "http"}


def test_unlisted_proxy_is_logged_once(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "_warned_of", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            resolved("198.51.100.3", x_forwarded_for="192.0.2.7")
    assert caplog.text.count("198.51.100.3") == 1
    assert "MSH_TRUSTED_PROXIES" in caplog.text


def test_invalid_network_fails_the_start(settings: Settings) -> None:
    settings.MSH_TRUSTED_PROXIES = "10.0.0.0/99"
    assert "msh.E013" in {message.id for message in run_checks()}


def posted(peer: str, forwarded: str) -> int:
    """The status of a partner's POST without a body, through the whole application."""
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/ebxml/",
        "REMOTE_ADDR": peer,
        "HTTP_X_FORWARDED_FOR": forwarded,
        "HTTP_AUTHORIZATION": "Bearer through a proxy",
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(),
    }
    list(application(environ, lambda status, _: statuses.append(status)))  # type: ignore[arg-type]
    return int(statuses[0][:3])


@pytest.mark.django_db(transaction=True)
def test_a_partner_behind_a_proxy_comes_from_its_own_network(trusted: None) -> None:
    partner = Partner.objects.create(name="acme", uri="http://a/", allowed_networks="192.0.2.0/24")
    Credential.objects.create(partner=partner, sha256=digest_of("through a proxy"))
    assert posted("10.0.0.1", "192.0.2.7") == 411  # it was let in, and has sent no length
    assert posted("10.0.0.1", "203.0.113.9") == 403
    assert posted("203.0.113.9", "192.0.2.7") == 403


def logged_in(address: str, password: str) -> bool:
    """Through a proxy, as WSGI has it: what the proxy says is put in place by the application."""
    client = Client()
    environ: dict[str, Any] = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": address}
    client.handler = _Resolving(client.handler)  # type: ignore[assignment]
    answer = client.post("/admin/login/", {"username": "admin", "password": password}, **environ)
    return answer.status_code == 302


class _Resolving:
    """The test client's handler, behind the part of our application that resolves proxies."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __call__(self, environ: dict[str, Any]) -> Any:
        proxies.resolve(environ)
        return self._handler(environ)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)


@pytest.mark.django_db
def test_a_guesser_locks_admin_out_for_himself_only(trusted: None) -> None:
    User.objects.create_superuser("admin", password="correct horse")
    for _ in range(6):
        assert not logged_in("203.0.113.9", "guess")
    assert not logged_in("203.0.113.9", "correct horse")
    assert logged_in("192.0.2.7", "correct horse")
    assert set(AccessAttempt.objects.values_list("ip_address", flat=True)) == {"203.0.113.9"}


COMPOSE = yaml.safe_load((DOCKER / "compose.yml").read_text())


def test_compose_trusts_its_proxy_and_nobody_else(settings: Settings) -> None:
    """The engine shows some clients as the network's gateway: the proxy tells us its address."""
    settings.MSH_TRUSTED_PROXIES = COMPOSE["services"]["web"]["environment"]["MSH_TRUSTED_PROXIES"]
    (network,) = networks_of(settings.MSH_TRUSTED_PROXIES)
    assert network.num_addresses == 1
    address = str(network.network_address)
    assert COMPOSE["services"]["proxy"]["networks"]["edge"]["ipv4_address"] == address
    (pool,) = COMPOSE["networks"]["edge"]["ipam"]["config"]
    assert not network.overlaps(ipaddress.ip_network(pool["ip_range"]))
    assert network.overlaps(ipaddress.ip_network(pool["subnet"]))
    gateway = next(iter(ipaddress.ip_network(pool["subnet"]).hosts()))
    found = resolved(address, x_forwarded_for=f"192.0.2.77, {gateway}")
    assert found["REMOTE_ADDR"] == str(gateway)


@pytest.mark.parametrize("file", ["docker/nginx.conf.template", "docs/proxies.md", "docs/tls.md"])
def test_nginx_replaces_what_the_client_has_written(file: str) -> None:
    set_headers = re.findall(r"X-Forwarded-For\s+(\S+);", (DOCKER.parent / file).read_text())
    assert set(set_headers) == {"$remote_addr"}


def test_container_takes_the_certificate_from_the_header_that_nginx_sets() -> None:
    template = (DOCKER / "nginx.conf.template").read_text()
    (name,) = re.findall(r"proxy_set_header (\S+) \$ssl_client_escaped_cert;", template)
    assert COMPOSE["services"]["web"]["environment"]["MSH_CLIENT_CERTIFICATE_HEADER"] == name
    assert "ssl_verify_client   optional_no_ca;" in template


def test_kubernetes_trusts_nobody_until_told_and_admits_the_ingress_only() -> None:
    folder = DOCKER / "kubernetes"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["data"]["MSH_TRUSTED_PROXIES"] == ""
    nobody, web = yaml.safe_load_all((folder / "network.yaml").read_text())
    assert nobody["spec"] == {
        "podSelector": {"matchLabels": {"app": "msh"}},
        "policyTypes": ["Ingress"],
    }
    ((source,),) = [rule["from"] for rule in web["spec"]["ingress"]]
    assert source.keys() == {"namespaceSelector", "podSelector"}
    assert "network.yaml" in (folder / "kustomization.yaml").read_text()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("trusted", "networks", "found"),
    [
        ("10.0.0.0/8", "192.0.2.0/24", ["msh.W005"]),
        ("172.30.93.0/24", "192.0.2.0/24", ["msh.W005"]),
        ("2001:db8::/64", "192.0.2.0/24", ["msh.W005"]),
        ("10.0.0.5, 10.0.0.6", "192.0.2.0/24", []),
        ("10.0.0.0/29", "192.0.2.0/24", []),
        ("127.0.0.0/8", "192.0.2.0/24", []),
        ("", "192.0.2.0/24", []),
        ("10.0.0.0/8", "", []),
    ],
)
def test_wide_trust_beside_a_partner_known_by_network_is_called_out(
    settings: Settings, admin_client: Client, trusted: str, networks: str, found: list[str]
) -> None:
    settings.MSH_TRUSTED_PROXIES = trusted
    partner = Partner.objects.create(name="acme", uri="http://a/", allowed_networks=networks)
    Agreement.objects.create(
        partner=partner, dialect="ebms2", tpa_id="t", our_party="1", their_party="2"
    )
    messages = run_checks(tags=["security"], include_deployment_checks=True)
    assert [one.id for one in messages if str(one.id).startswith("msh")] == found
    page = admin_client.get("/admin/").content.decode()
    assert ("may send as partner acme" in page) is bool(found)
    Credential.objects.create(partner=partner, sha256=digest_of("its own"))
    assert checks.check_deployment(None) == []
