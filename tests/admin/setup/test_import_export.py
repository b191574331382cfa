"""Agreements are exported and imported as JSON."""

import json
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from msh.flows.operations import configure
from msh.flows.operations.configure import DOCUMENT_LIMIT, IMPORT_PERMISSIONS
from msh.models import SettingChange
from msh.store.history import Actor
from partners import setup
from partners.export import exported, preview
from partners.models import Agreement, OwnIdentity, Partner, Route
from partners.models.partner import OutgoingKind
from tests.admin.conftest import client_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

EXPORT = reverse("admin:partners_agreement_export")

IMPORT_PAGE = reverse("admin:partners_agreement_import")


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


def test_export_can_be_imported_again() -> None:
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


def test_configuration_changed_since_the_preview_is_not_overwritten(importer: Client) -> None:
    configured()
    shown = offer(importer, with_timeout(7))
    Agreement.objects.update(retries=9)

    again = confirm(importer, shown)

    assert "The configuration has changed since the preview" in again.content.decode()
    assert not Agreement.objects.filter(timeout=7).exists()


def test_a_document_larger_than_a_usual_form_is_applied(importer: Client) -> None:
    configured()
    document = with_timeout(7)
    document["partners"][0]["allowed_networks"] = "192.0.2.0/24" + " " * (
        DOCUMENT_LIMIT // 2 + 100_000
    )

    applied = confirm(importer, offer(importer, document))

    assert applied.status_code == 302
    assert Agreement.objects.filter(timeout=7).count() == 1


def test_import_locks_the_configuration_before_it_compares() -> None:
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
def test_invalid_document_is_refused_with_the_reason(
    importer: Client, document: bytes, why: str
) -> None:
    configured()
    before = exported()

    text = offer(importer, document).content.decode()

    assert why in text
    assert "<script>alert" not in text
    assert exported() == before


def test_import_needs_every_permission_to_change() -> None:
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
