"""A CPA is uploaded, shown, confirmed and downloaded."""

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from msh.flows.operations.configure import EXPORT_PERMISSIONS, IMPORT_PERMISSIONS
from msh.models import SettingChange
from partners.models import Agreement, CpaDocument, Partner
from tests.admin.conftest import client_of
from tests.flows.world import make_world
from tests.wire.cpas import SIGNED, cpa

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:partners_agreement_cpa")


@pytest.fixture
def importer() -> Client:
    return client_of("ada", *(name.partition(".")[2] for name in IMPORT_PERMISSIONS))


def offer(client: Client, content: bytes, **fields: str) -> Any:
    return client.post(PAGE, {"file": SimpleUploadedFile("cpa.xml", content), **fields})


def confirm(client: Client, shown: Any, reason: str = "agreed on Monday") -> Any:
    """Send what the page holds."""
    form = shown.content.decode().rpartition("<form")[2]
    held = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    held |= dict(re.findall(r'<textarea name="(\w+)" hidden>([^<]*)<', form))
    del held["csrfmiddlewaretoken"]
    return client.post(PAGE, {**held, "reason": reason})


def download(client: Client, agreement: Agreement) -> Any:
    return client.get(reverse("admin:partners_agreement_cpa_download", args=[agreement.pk]))


@pytest.mark.requirement("EB-195", "EB-198")
def test_a_cpa_is_shown_then_confirmed(importer: Client) -> None:
    shown = offer(importer, cpa(SIGNED), we="acme-1", not_yet="on")
    page = shown.content.decode()
    assert "We are acme; globex is partner globex." in page
    assert "agreement cpa-1 with globex: added" in page
    assert "set MSH_SIGNING_KEY" in page
    assert not Partner.objects.exists()

    assert confirm(importer, shown, reason="").status_code == 200
    assert not Partner.objects.exists()
    assert confirm(importer, shown).status_code == 302
    agreement = Agreement.objects.get()
    assert agreement.signed
    kept = CpaDocument.objects.get()
    assert (kept.agreement, bytes(kept.content), kept.imported_by) == (
        *(agreement, cpa(SIGNED)),
        "ada",
    )
    reasons = set(SettingChange.objects.values_list("actor", "reason"))
    assert reasons == {("ada", "agreed on Monday")}
    assert "No changes." in offer(importer, cpa(SIGNED)).content.decode()


@pytest.mark.requirement("EB-195")
def test_what_was_not_shown_is_not_applied(importer: Client) -> None:
    shown = offer(importer, cpa(), we="acme-1")
    make_world()
    answer = confirm(importer, shown)
    assert "has changed since the preview" in answer.content.decode()
    assert not CpaDocument.objects.exists()


@pytest.mark.requirement("EB-199")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<a/>", "begins with CollaborationProtocolAgreement"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "has a DOCTYPE"),
        (cpa(), "Which party is us?"),
        (b" " * (4 << 20), "cannot be imported"),
        (b" " * ((4 << 20) + 1), "Choose a CPA of at most"),
    ],
)
def test_what_cannot_be_imported_is_said(importer: Client, content: bytes, why: str) -> None:
    answer = offer(importer, content)
    assert answer.status_code == 200
    assert why in answer.content.decode()
    assert not Partner.objects.exists()


def test_a_content_that_is_no_base64_is_refused(importer: Client) -> None:
    answer = importer.post(PAGE, {"content": "***", "seen": "x", "reason": "why"})
    assert "Choose a CPA" in answer.content.decode()


@pytest.mark.requirement("EB-200")
def test_a_cpa_is_downloaded(importer: Client) -> None:
    confirm(importer, offer(importer, cpa(), we="acme-1"))
    agreement = Agreement.objects.get()
    answer = download(importer, agreement)
    assert (answer.content, answer.headers["Content-Type"]) == (cpa(), "application/xml")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="cpa.xml"'
    CpaDocument.objects.all().delete()
    assert b"CollaborationProtocolAgreement" in download(importer, agreement).content
    agreement.channels.all().delete()
    assert download(importer, agreement).status_code == 302
    draft = make_world().agreement
    assert download(importer, draft).status_code == 404


def test_only_who_may_import_and_export_can() -> None:
    reader = client_of("eve", *(name.partition(".")[2] for name in EXPORT_PERMISSIONS))
    agreement = make_world().agreement
    assert reader.get(PAGE).status_code == 403
    assert offer(reader, cpa()).status_code == 403
    assert download(reader, agreement).status_code == 404
    stranger = client_of("bob", "view_agreement")
    assert download(stranger, agreement).status_code == 403
