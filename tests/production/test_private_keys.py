"""No private key of ours is in what a person or another program is shown: a page, a download, an
answer of the API, an error page, what a command prints, a log, a row, a trace, a metric. Rows and
logs of whole MSHs: tests/exchange/test_signed.py. Plans of Spark: tests/spark/test_load.py."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command, find_commands
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from msh import metrics, pem
from msh.alerts.models import AlertRecipient, OperatorNotice
from msh.business_keys.models import KeyRule
from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.logs import JsonFormatter
from msh.management import inspection
from msh.models import (
    ActRequest,
    Attempt,
    InboundMessage,
    OutboundMessage,
    SettingChange,
    Webhook,
)
from msh.transport.tls import client_context, our_certificate
from partners.models import Channel, OwnIdentity, Route
from tests.api.application import Application
from tests.api.conftest import administrator, token, world
from tests.api.test_openapi import PARAMETERS, api
from tests.endpoint.ebms2.test_encryption import sealed
from tests.endpoint.ebms2.test_signatures import THEM, TWO
from tests.flows.flying import REFUSED, Sky, make_sky
from tests.keys import decrypting, environment, new_key, pem_of
from tests.leaks import leaks
from tests.peer.ebms2 import message
from tests.tracing.collector import Collector
from tests.tracing.test_recorder import recording

__all__ = ["administrator", "api", "token", "world"]  # fixtures

pytestmark = pytest.mark.django_db(transaction=True)

SIGNS, DECRYPTS, CLIENT = (new_key(name, end=400) for name in ("us", "our next", "client"))
KEYS = [one.private for one in (SIGNS, DECRYPTS, CLIENT)]
TOKEN = "a-token-of-prometheus"


@pytest.fixture(autouse=True)
def keys(settings: Any, tmp_path: Path) -> Path:
    """The folder of the files with our keys, which the settings name."""
    files = {**environment(tmp_path, [SIGNS]), **decrypting(tmp_path, [DECRYPTS])}
    for name, value in files.items():
        setattr(settings, name, [value])
    for name, content in (("crt", pem_of(CLIENT).encode()), ("key", CLIENT.private)):
        (tmp_path / f"client.{name}").write_bytes(content)
    settings.MSH_CLIENT_CERTIFICATE = str(tmp_path / "client.crt")
    settings.MSH_CLIENT_KEY = str(tmp_path / "client.key")
    settings.MSH_METRICS_TOKEN = TOKEN
    return tmp_path


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test makes us log, down to DEBUG, has no key."""
    caplog.set_level(logging.DEBUG)
    yield
    records = [*caplog.get_records("setup"), *caplog.get_records("call")]
    lines = [JsonFormatter().format(record) for record in records]
    assert not leaks("\n".join(lines), *KEYS)


@pytest.fixture
def sky() -> Sky:
    return exchange()


def exchange() -> Sky:
    """A partner to whom a signed and encrypted message flew, and of whom another was taken: each of
    our keys has been used."""
    sky = make_sky(signed=True, ack_signed=True, encrypted=True, certificate=pem_of(new_key(THEM)))
    sky.submit()
    (job,) = sky.poll()
    assert b"SignatureValue" in job.body
    assert b"CipherValue" in job.body
    sky.end(job, REFUSED)
    out = sealed(sky.from_partner(message(payloads=TWO)), key=DECRYPTS)
    assert receive(sky.partner, Incoming(out.content_type, out.body)).reason == ""
    assert InboundMessage.objects.filter(message_id=out.message_id).exists()
    assert client_context()
    assert our_certificate() == CLIENT.certificate
    return sky


@dataclass
class Seen:
    """Answers, by what was asked for."""

    statuses: dict[str, list[int]] = field(default_factory=dict)
    leaking: list[str] = field(default_factory=list)

    def note(self, what: str, response: Any) -> None:
        content = b"".join(response.streaming_content) if response.streaming else response.content
        headers = repr(dict(response.headers)).encode()
        self.statuses.setdefault(what, []).append(response.status_code)
        self.leaking += [f"{what}: {one}" for one in leaks(content + headers, *KEYS)]


# --- pages --------------------------------------------------------------------------------------

SLUGS = {"<slug:name>": "signature", "<int:position>": "1"}
A_ROW = re.compile("<(path:object_id|int:object_id|id)>")
NOT_A_PAGE = (
    *("/logout/", "/login/", "/r/", "/password_change/done/"),
    "<int:key>/remove/",  # takes POST alone
    "(?P<",  # Django's, behind all others
)
STATUSES = {
    "filters": {405},  # takes POST alone
    "loopback": {405},
    "autocomplete": {403},  # without a field
    "add": {200, 403},  # many tables are filled by the MSH alone
    "delete": {200, 403},
    "": {302},  # to the page of the row
}
"""Of what ends so; all others are shown."""
WITHOUT_A_ROW = {
    *("django_celery_beat.clockedschedule", "django_celery_beat.solarschedule"),
    *("axes.accessattempt", "axes.accessfailurelog"),
}
"""Of libraries, and nothing of ours makes one."""


def patterns(of: Any = None, before: str = "/") -> Iterator[str]:
    """The path of every address that Django answers."""
    for one in (of or get_resolver()).url_patterns:
        path = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from patterns(one, path)
        else:
            yield path


def console() -> list[str]:
    found = [path for path in patterns() if path.startswith("/admin/")]
    return [path for path in found if not any(part in path for part in NOT_A_PAGE)]


def one_of_each(sky: Sky) -> None:
    """Rows that exchanges do not leave behind."""
    partner, now = sky.partner, timezone.now()
    OwnIdentity.objects.get_or_create(defaults={"msh_uri": "https://us.example/msh/"})
    Channel.objects.create(agreement=sky.agreement, direction="out", service="orders", action="New")
    Route.objects.create(to_party="333", partner=partner)
    Webhook.objects.create(name="shop", url="https://shop.example/")
    SettingChange.objects.create(
        actor="ann", what="added", kind="Partner", name=partner.name, before={}, after={}
    )
    OperatorNotice.objects.create(
        cause="opened", channel="email", partner=partner, kind="x", at=now, due=now
    )
    AlertRecipient.objects.create(name="desk", channel="email", addresses="a@b.example")
    KeyRule.objects.create(name="number", path="/order")
    ActRequest.objects.create(
        verb="reset", act="reset_sequence", parameters={"partner": partner.pk}, facts="5",
        text="number 1", partner=partner, direction="out", asked_by="operator", reason="agreed",
        until=now + timedelta(hours=1),
    )  # fmt: skip


def address_of(path: str, sky: Sky, month: str) -> str | None:
    """For one row, the latest; None if there is none."""
    path = path.replace("<int:key>/<int:year>/<int:month>", f"{sky.partner.pk}/{month}")
    path = path.replace("/partner/<int:key>/", f"/partner/{sky.partner.pk}/")
    for name, value in SLUGS.items():
        path = path.replace(name, value)
    if A_ROW.search(path):
        label, name = path.removeprefix("/admin/").split("/")[:2]
        latest = apps.get_model(label, name)._default_manager.order_by("-pk").first()
        if latest is None:
            assert f"{label}.{name}" in WITHOUT_A_ROW
            return None
        path = A_ROW.sub(str(latest.pk), path)
    assert "<" not in path, path
    return path


def test_no_page_has_a_key(administrator: Client, api: Application, sky: Sky) -> None:
    """Each address of the console: lists, rows, dialogs, contents, exports."""
    one_of_each(sky)
    seen = Seen()
    for path in console():
        if there := address_of(path, sky, f"{timezone.now():%Y/%m}".replace("/0", "/")):
            exports = path.endswith("/rows/")
            ask = administrator.post if exports else administrator.get
            seen.note(path, ask(there, {"format": "json"} if exports else {}))
    assert seen.leaking == []
    assert len(seen.statuses) > 200
    strange = {
        path: status
        for path, (status,) in seen.statuses.items()
        if status not in STATUSES.get(ending_of(path), {200})
    }
    assert strange == {}


def ending_of(path: str) -> str:
    """The last word of a path; "" for the bare address of a row."""
    ending = path.rstrip("/").rpartition("/")[2]
    return "" if A_ROW.fullmatch(ending) else ending


# --- the API, exports, health -------------------------------------------------------------------

QUERIES = {"find_by_business_key": {"value": "7"}, "count_replays": {"consumer": "archive"}}
OTHER_FACES = {"/api/schema", "/api/docs", "/api/problems", "/health/live", "/metrics"}


def test_no_answer_of_the_api_has_a_key(client: Client, api: Application, sky: Sky) -> None:
    document = client.get("/api/schema", headers={"Accept": "application/json"}).json()
    seen = Seen()
    for path, methods in document["paths"].items():
        if "get" not in methods:
            continue
        name = methods["get"]["operationId"]
        there = path.removeprefix("/api/v1/").format(**PARAMETERS.get(name, {}))
        answer = api.get(there, **QUERIES.get(name, {}))
        seen.statuses[name] = [answer.status]
        seen.leaking += leaks(answer.content + repr(dict(answer.headers)).encode(), *KEYS)
    assert seen.leaking == []
    assert {name: status for name, status in seen.statuses.items() if status != [200]} == {}
    assert {"get_configuration", "get_message", "list_incidents"} <= seen.statuses.keys()


def test_no_other_face_has_a_key(client: Client, sky: Sky) -> None:
    metrics.forget()
    seen = Seen()
    for path in OTHER_FACES:
        seen.note(path, client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}))
    metrics.forget()
    assert seen.leaking == []
    assert seen.statuses == {path: [200] for path in OTHER_FACES}


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True])
def test_no_error_page_has_a_key(
    administrator: Client,
    sky: Sky,
    settings: Any,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    debug: bool,
) -> None:
    """The error comes up while a key is read: functions on the stack hold it."""
    one_of_each(sky)
    settings.DEBUG = debug
    export = reverse("admin:partners_agreement_cpa_download", args=[sky.agreement.pk])
    assert administrator.get(export).status_code == 200
    read: list[bytes] = []

    def fail(octets: bytes, *_: object) -> NoReturn:
        read.append(octets)
        raise RuntimeError("the library has a defect")

    monkeypatch.setattr(pem, "load_pem_private_key", fail)
    key = keys / "0.key"
    key.write_bytes(SIGNS.private + b"\n")
    administrator.raise_request_exception = False
    page = administrator.get(export)
    assert page.status_code == 500
    assert len(read) == 1
    assert leaks(read[0], SIGNS.private)
    assert ("the library has a defect" in page.content.decode()) is debug
    assert leaks(page.content, *KEYS) == []
    assert "the library has a defect" in caplog.text  # and see `logged`


def test_no_reason_has_a_key(administrator: Client, sky: Sky, settings: Any, keys: Path) -> None:
    """Of a key that cannot be used: in rows, in a command, in a check."""
    (keys / "0.crt").write_text(pem_of(CLIENT))
    spoilt = keys / "spoilt.key"
    spoilt.write_bytes(SIGNS.private[:-200])
    settings.MSH_SIGNING_KEY = [str(spoilt)]
    settings.MSH_DECRYPTION_KEY = [str(spoilt)]
    settings.MSH_CLIENT_KEY = str(keys / "0.key")
    sky.submit()
    assert sky.poll() == []
    (attempt,) = Attempt.objects.filter(outcome="failed", detail__contains="spoilt.key")
    said = [attempt.detail]
    for command in ("certificates", "check"):
        with pytest.raises(CommandError) as refused:
            call_command(command)
        said.append(str(refused.value))
    assert set(re.findall(r"msh\.E02[456]", said[2])) == {"msh.E024", "msh.E025", "msh.E026"}
    assert leaks("".join(said), *KEYS) == []


# --- commands, rows -----------------------------------------------------------------------------

CONNECTING = {"ping", "link-status"}
"""They ask the partner."""


def test_no_command_prints_a_key(sky: Sky, tmp_path: Path) -> None:
    one_of_each(sky)
    message = OutboundMessage.objects.latest("pk").message_id
    written = tmp_path / "cpa.xml"
    commands = [
        *(["certificates"], ["check"], ["diffsettings", "--all"], ["dumpdata"], ["token"]),
        *(["deliveries"], ["jobs"], ["links"], ["maintenance"], ["messages"]),
        *(["status", message], ["trace", message, "--all"], ["report", sky.partner.name]),
        ["links", "--history", sky.partner.name],
        ["cpa", str(written), "--export", sky.agreement.tpa_id],
    ]
    printed = {}
    for name, *arguments in commands:
        out = StringIO()
        call_command(name, *arguments, stdout=out)
        printed[name] = out.getvalue()
    assert {name for name, text in printed.items() if not text} == set()
    assert "MSH_SIGNING_KEY" in printed["diffsettings"]
    (folder,) = inspection.__path__
    assert set(find_commands(f"{folder}/management")) - CONNECTING <= printed.keys()
    printed["cpa"] += written.read_text()
    assert [name for name, text in printed.items() if leaks(text, *KEYS)] == []


# --- traces -------------------------------------------------------------------------------------


def test_no_span_has_a_key() -> None:
    with Collector() as collector:
        with recording(collector.endpoint) as recorder:
            recorder.begin({})
            sky = exchange()
            message = sky.submit()
            (job,) = sky.poll()
            recorder.posted(replace(job, headers=recorder.headers_for(job)), REFUSED, 0.1)
            recorder.delivered(message.message_id, "default", repr(SIGNS), 0.1)
        spans = collector.spans
    assert {one.name for one in spans} == {"deliver", "send", "submit"}
    assert leaks(repr(spans), *KEYS) == []
