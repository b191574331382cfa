"""Which addresses are posted to, and which functions are called: not all that can be typed."""

import asyncio
import socket
import time
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from msh import checks
from msh.alerts.models import AlertRecipient
from msh.models import Consumer, callables
from msh.models.consumer import check_callable, check_url
from msh.protocol.attempt import AttemptOutcome
from msh.transport import once, way, webhook
from msh.transport.enquiry import EnquiryFailed, ask
from msh.transport.job import Access, Job
from partners.models import Partner

METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    "url",
    [
        f"http://{METADATA}/latest",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]:80/x",
        "http://user:password@host/",
        "https://user@host/",
        "https://:password@host/",
        "ftp://host/",
    ],
)
def test_they_are_refused_where_an_address_is_set(url: str, db: None, settings: Any) -> None:
    with pytest.raises(ValidationError):
        check_url(url)
    with pytest.raises(ValidationError):
        AlertRecipient(name="desk").post_to(url)
    for field in ("uri", "address", "error_address", "our_uri"):
        partner = Partner(**{"name": "acme", "uri": "http://acme.example/", field: url})
        with pytest.raises(ValidationError) as refused:
            partner.full_clean()
        assert field in refused.value.message_dict
    with pytest.raises(CommandError):
        call_command("consumer", "desk", "--url", url)
    assert not Consumer.objects.filter(name="desk").exists()
    settings.MSH_OPERATORS_WEBHOOK = settings.MSH_FROM_PARTY_HANDLER = url
    found = checks.check_settings(None)
    assert {"msh.E007", "msh.E021"} <= {one.id for one in found}
    assert "password" not in "".join(one.msg for one in found)


@pytest.mark.parametrize("name", ["MSH_URI", "MSH_ERROR_URI", "MSH_OTLP_ENDPOINT"])
def test_settings_have_no_credentials_in_urls(name: str, settings: Any) -> None:
    assert checks.check_settings(None) == []
    setattr(settings, name, "https://user:password@host.example/ebxml/")
    assert len(checks.check_settings(None)) == 1


def test_reason_points_to_the_field_of_the_secret() -> None:
    with pytest.raises(ValidationError, match="field of the secret") as refused:
        check_url("https://user:hidden@host/")
    assert "hidden" not in str(refused.value)


@pytest.fixture
def resolves_to(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the name server says of every name."""
    answers: list[str] = [METADATA]
    asked = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "rebound.example":
            return asked(host, port, *args, **options)
        return [
            (
                socket.AF_INET6 if ":" in one else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (one, port, 0, 0) if ":" in one else (one, port),
            )
            for one in answers
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


def job(url: str) -> Job:
    now = time.monotonic()
    return Job("key", 1, url, "text/plain", b"x", "", deadline=5.0, not_after=now + 5)


@pytest.mark.parametrize("address", [METADATA, "fe80::1", "::ffff:169.254.169.254"])
def test_a_name_that_leads_there_is_not_connected_to(resolves_to: list[str], address: str) -> None:
    resolves_to[:] = [address]
    url = "http://rebound.example:9/"
    result = once.post(job(url))
    assert result is not None
    assert (result.outcome, result.body_sent) == (AttemptOutcome.FAILED, False)
    assert "link-local" in result.detail
    with pytest.raises(webhook.WebhookFailed, match="link-local"):
        webhook.post(url, b"{}", "", 5.0)
    with pytest.raises(EnquiryFailed, match="link-local"):
        ask([url], "", 5.0, Access())


def test_other_addresses_of_the_same_name_are_used(resolves_to: list[str]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    async def exchange() -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            url = f"http://rebound.example:{port}/"
            return await asyncio.to_thread(webhook.post, url, b"{}", "", 10.0)

    resolves_to[:] = [METADATA, "127.0.0.1"]
    assert asyncio.run(exchange()).startswith("204")


def test_the_test_of_a_connection_goes_there_neither() -> None:
    (step,) = way.walk_to(f"http://{METADATA}:9/", 0.5, Access())
    assert step.went is False


# --- functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["os.system", "subprocess.run", "builtins.eval", "shutil.rmtree"])
def test_functions_of_python_itself_are_never_named(path: str) -> None:
    with pytest.raises(ValidationError, match="Python itself"):
        check_callable(path)
    with pytest.raises(callables.NotAllowed):
        Consumer(kind="in_process", path=path).function()


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("tests.delivery.application.consume", True),
        ("django.core.management.call_command", False),
        ("tests.deliveryother.consume", False),
        ("tests.waiting.wait_until", False),
    ],
)
def test_functions_are_named_by_allowed_prefixes(path: str, allowed: bool, settings: Any) -> None:
    settings.MSH_CALLABLES = ["tests.delivery", "shop."]
    if allowed:
        check_callable(path)
        assert callables.load(path) is not None
        return
    with pytest.raises(ValidationError, match=r"MSH_CALLABLES allows tests\.delivery"):
        check_callable(path)
    with pytest.raises(callables.NotAllowed):
        callables.load(path)
