"""Agreements: their horizon, the way to the partner, out and in as JSON."""

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from msh.admin.setup.import_export import IMPORT_PERMISSIONS, LIMIT
from msh.flows.operations import configure
from msh.flows.operations.connection import check
from msh.models import Attempt, History, SettingChange
from msh.store.history import Actor
from partners import setup
from partners.export import exported, preview
from partners.models import Agreement, OwnIdentity, Partner, Route
from partners.models.partner import OutgoingKind
from tests.certificates import write_certificate
from tests.flows.world import make_world
from tests.peer import Peer, status
from tests.peer.mailbox import Mailbox

from .conftest import client_of

pytestmark = pytest.mark.django_db

EXPORT = reverse("admin:partners_agreement_export")
IMPORT_PAGE = reverse("admin:partners_agreement_import")


@pytest.fixture
def operator() -> Client:
    return client_of("ann", "view_agreement", "view_partner", "send_now_outboundlink")


def connection_page(agreement: Agreement) -> str:
    return reverse("admin:partners_agreement_connection", args=[agreement.pk])


def partner_at(address: str) -> Partner:
    partner = make_world().there
    partner.address = address
    partner.save()
    return partner


def tried(partner: Partner) -> list[tuple[str, bool | None]]:
    return [(step.name, step.went) for step in check(partner)]


# --- the way to the partner ---------------------------------------------------------------------
def test_the_way_is_open_and_nothing_is_sent() -> None:
    with Peer() as peer:
        peer.always(status(404))
        partner = partner_at(peer.address)

        assert tried(partner) == [("TCP", True), ("link status", None)]

        (asked,) = peer.received
        assert (asked.method, asked.body) == ("GET", b"")
    assert not Attempt.objects.exists()
    assert not History.objects.exists()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    (step,) = check(partner_at(f"http://127.0.0.1:{port}/"))

    assert (step.name, step.went) == ("TCP", False)
    assert "ConnectionRefusedError" in step.detail


def test_no_tls_where_tls_is_agreed() -> None:
    with Peer() as peer:
        address = peer.address.replace("http:", "https:")

        assert tried(partner_at(address)) == [("TCP", True), ("TLS", False)]


def test_tls_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with Peer(tls=tls) as peer:
        peer.always(status(404))
        untrusted = check(partner_at(peer.address))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = check(partner_at(peer.address))

    assert untrusted[-1].went is False
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted[-1].detail
    assert [step.went for step in trusted[:2]] == [True, True]
    assert "certificate until" in trusted[1].detail


def test_a_partner_reached_by_mail_is_our_mail_host(settings: Settings) -> None:
    partner = partner_at("mailto:b@example.net")
    with Mailbox() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.EMAIL_USE_SSL = False

        assert tried(partner) == [("way", None), ("TCP", True)]


def test_get_tries_nothing_and_post_needs_its_token(operator: Client) -> None:
    with Peer() as peer:
        agreement = partner_at(peer.address).agreements.get()
        strict = client_of(
            "sue", "view_agreement", "send_now_outboundlink", enforce_csrf_checks=True
        )

        assert operator.get(connection_page(agreement)).status_code == 200
        assert strict.post(connection_page(agreement)).status_code == 403
        assert peer.connections == 0

        shown = operator.post(connection_page(agreement)).content.decode()
        assert "connected to 127.0.0.1" in shown


def test_a_viewer_may_not_test() -> None:
    agreement = make_world().agreement
    viewer = client_of("vera", "view_agreement")

    assert viewer.post(connection_page(agreement)).status_code == 403
    page = viewer.get(reverse("admin:partners_agreement_change", args=[agreement.pk]))
    assert connection_page(agreement) not in page.content.decode()


# --- out and in ---------------------------------------------------------------------------------
@pytest.fixture
def importer() -> Client:
    return client_of("ada", *(name.partition(".")[2] for name in IMPORT_PERMISSIONS))


def configured() -> Partner:
    world = make_world()
    Route.objects.create(to_party="333", partner=world.there)
    OwnIdentity.objects.create(msh_uri="http://us.example/")
    world.there.show(OutgoingKind.BEARER, "t0p-secret")
    world.there.save()
    return world.there


def offer(client: Client, document: Any, **fields: str) -> Any:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return client.post(IMPORT_PAGE, {"file": SimpleUploadedFile("x.json", content), **fields})


def confirm(client: Client, shown: Any, reason: str = "agreed on Monday") -> Any:
    """Send what the page holds, in the form's own encoding."""
    assert shown.content.decode().count('enctype="multipart/form-data"') == 2
    seen = shown.context["preview"].seen
    sent = {"text": shown.context["text"], "seen": seen, "reason": reason}
    return client.post(IMPORT_PAGE, sent)


def with_timeout(seconds: int) -> dict[str, Any]:
    document = exported()
    document["partners"][0]["agreements"][0]["timeout"] = seconds
    return document


def test_what_is_exported_is_what_there_is() -> None:
    configured()
    before = [list(model.objects.values()) for model in (Partner, Agreement, Route, OwnIdentity)]

    report = setup.apply(exported())

    assert {change.what for change in report.changes} == {"unchanged"}
    after = [list(model.objects.values()) for model in (Partner, Agreement, Route, OwnIdentity)]
    assert after == before
    Route.objects.all().delete()
    document = exported()
    Agreement.objects.all().delete()
    setup.apply(document)
    assert [list(Agreement.objects.values_list("tpa_id", "timeout"))] == [[("tpa-1", 60)] * 2]


def test_the_export_holds_no_secret(importer: Client) -> None:
    partner = configured()

    response = importer.get(EXPORT)

    text = response.content.decode()
    assert response["Content-Disposition"] == 'attachment; filename="agreements.json"'
    assert json.loads(text) == exported()
    assert "t0p-secret" not in text
    assert partner.outgoing_secret not in text


def test_an_import_is_a_diff_before_it_is_applied(importer: Client) -> None:
    configured()
    document = with_timeout(7)

    shown = offer(importer, document)

    assert [line for line in shown.context["preview"].diff if line[:3] not in ("---", "+++")][1:]
    text = shown.content.decode()
    assert "-          &quot;timeout&quot;: 60," in text
    assert "+          &quot;timeout&quot;: 7," in text
    assert not Agreement.objects.filter(timeout=7).exists()

    applied = confirm(importer, shown)

    assert applied.status_code == 302
    assert Agreement.objects.filter(timeout=7).count() == 1
    assert not Partner.objects.filter(outbound_link=None).exists()
    assert "updated (timeout)" in " ".join(str(m) for m in get_messages(applied.wsgi_request))
    change = SettingChange.objects.get()
    assert (change.actor, change.before, change.after, change.reason) == (
        "ada", {"timeout": 60}, {"timeout": 7}, "agreed on Monday",
    )  # fmt: skip


def test_an_import_takes_a_reason(importer: Client) -> None:
    configured()
    shown = offer(importer, with_timeout(7))

    again = confirm(importer, shown, reason=" ")

    assert "a reason is required" in again.content.decode()
    assert not Agreement.objects.filter(timeout=7).exists()
    assert confirm(importer, again).status_code == 302


def test_what_has_changed_meanwhile_is_shown_again(importer: Client) -> None:
    configured()
    shown = offer(importer, with_timeout(7))
    Agreement.objects.update(retries=9)

    again = confirm(importer, shown)

    assert "The configuration has changed since the preview" in again.content.decode()
    assert not Agreement.objects.filter(timeout=7).exists()


def test_a_document_larger_than_a_usual_form_is_applied(importer: Client) -> None:
    configured()
    document = with_timeout(7)
    document["partners"][0]["allowed_networks"] = "192.0.2.0/24" + " " * (LIMIT // 2 + 100_000)

    applied = confirm(importer, offer(importer, document))

    assert applied.status_code == 302
    assert Agreement.objects.filter(timeout=7).count() == 1


def test_nobody_changes_what_was_seen_before_it_is_applied() -> None:
    """The comparison and the act are one transaction that keeps other writers out."""
    configured()
    document = with_timeout(7)
    shown = preview(document)

    with CaptureQueriesContext(connection) as queries:
        configure.apply(document, Actor("ada", "agreed"), shown.seen)

    statements = [query["sql"] for query in queries]
    (lock,) = [n for n, sql in enumerate(statements) if sql.startswith("LOCK TABLE")]
    assert not [sql for sql in statements[:lock] if sql.startswith(("SELECT", "UPDATE"))]


def test_nothing_to_change_offers_no_button(importer: Client) -> None:
    configured()

    assert "No changes." in offer(importer, exported()).content.decode()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "Choose a document"),
        (b"{", "Not a JSON document"),
        (b'{"partners": "x"}', "partners: must be a list."),
        (b'{"partners": [{"name": "a", "uri": "x"}]}', "is not a URI"),
        (b'{"partners": [{"name": "a", "token_in": "s3cret"}]}', "contains secrets: token_in"),
        (b'{"msh_uri": "\\ud800"}', "Not a JSON document"),
        (b'{"msh_uri": "\\u0000"}', "Not a JSON document"),
        (b"[" * 100_000, "Not a JSON document"),
        (b'{"partners": [{"name": "<script>alert(1)</script>"}]}', "partners[0]"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_changes(
    importer: Client, document: bytes, why: str
) -> None:
    configured()
    before = exported()

    text = offer(importer, document).content.decode()

    assert why in text
    assert "<script>alert" not in text
    assert exported() == before


def test_importing_takes_the_rights_to_change_all_of_it() -> None:
    names = [name.partition(".")[2] for name in IMPORT_PERMISSIONS]
    for missing in names:
        client = client_of(f"no-{missing}", *(name for name in names if name != missing))
        assert client.get(IMPORT_PAGE).status_code == 403
        assert offer(client, {}).status_code == 403


def test_without_a_csrf_token_nothing_is_imported() -> None:
    names = (name.partition(".")[2] for name in IMPORT_PERMISSIONS)
    strict = client_of("sue", *names, enforce_csrf_checks=True)

    assert offer(strict, {}).status_code == 403


def test_a_preview_changes_nothing() -> None:
    configured()
    before = exported()

    shown = preview(with_timeout(7))

    assert any('"timeout": 7' in line for line in shown.diff)
    assert exported() == before


# --- the horizon --------------------------------------------------------------------------------
def test_the_horizon_is_computed(administrator: Client) -> None:
    agreement = make_world(timeout=10, retries=4, retry_interval=5).agreement

    page = administrator.get(
        reverse("admin:partners_partner_change", args=[agreement.partner.pk])
    ).content.decode()

    assert "<output data-horizon>30 s</output>" in page
    shown = administrator.get(
        reverse("admin:partners_agreement_change", args=[agreement.pk])
    ).content.decode()
    assert "at least 11 days" in shown
