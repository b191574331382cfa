"""The page of certificates: what `manage.py certificates` lists, in words, with links."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from msh.pem import SigningKey
from partners.models import Agreement, Credential
from tests.admin.conftest import client_of, path_of, url
from tests.certificates import Authority
from tests.flows.flying import make_sky
from tests.keys import environment, new_key, pem_of

pytestmark = pytest.mark.django_db

PAGE = "/admin/certificates/"
SHA = "Serial, SHA-256"
HEADERS = ("Whose", "For", "Until", "Used by", "Subject", "Issuer", SHA, "Valid from")


@pytest.fixture
def viewer() -> Client:
    return client_of("vic", "view_partner", "view_agreement")


def pinned(*keys: SigningKey, **terms: Any) -> Agreement:
    agreement: Agreement = make_sky().agreement
    agreement.certificate = "\n".join(map(pem_of, keys))
    for name, value in terms.items():
        setattr(agreement, name, value)
    agreement.full_clean()
    agreement.save()
    return agreement


def ours(settings: Any, folder: Path, *keys: SigningKey) -> None:
    for name, value in environment(folder, keys).items():
        setattr(settings, name, value.split(","))


def rows_of(client: Client) -> list[dict[str, str]]:
    (table,) = client.get(PAGE).context["tables"]
    assert table.headers == HEADERS
    return [dict(zip(HEADERS, map(str, row), strict=True)) for row in table.rows]


@pytest.mark.requirement("EB-172")
def test_the_page_has_what_the_command_lists(viewer: Client, settings: Any, tmp_path: Path) -> None:
    ours(settings, tmp_path, new_key("us", -1, 400))
    agreement = pinned(new_key("them", -20, 300), signed=True)
    authority = Authority("authority", days=(-20, 200))
    agreement.partner.ca_certificates = authority.pem
    settings.MSH_CLIENT_CERTIFICATES = str(tmp_path)
    authority.write(tmp_path / "own.pem", "for them")
    agreement.partner.client_certificate = "own"
    agreement.partner.save()
    client = authority.write(tmp_path / "client.pem", "its", days=(-20, 100)).read_text()
    credential = Credential(partner=agreement.partner)
    credential.certify(client[client.index("-----BEGIN CERTIFICATE") :])
    credential.save()
    settings.MSH_CLIENT_CERTIFICATE = str(authority.write(tmp_path / "ours.pem", "shown"))
    listed = StringIO()
    call_command("certificates", "--json", stdout=listed)
    named = json.loads(listed.getvalue())
    shown = {"".join(re.findall("[0-9a-f]{64}", row[SHA])): row for row in rows_of(viewer)}

    assert shown.keys() == {one["sha256"] for one in named}
    for one in named:
        row = shown[one["sha256"]]
        assert one["whose"] in row["Whose"]
        assert row["For"] == ", ".join(one["uses"])
        assert one["subject"] in row["Subject"]
        assert one["issuer"] in row["Issuer"]
        assert one["serial"] in row[SHA]
        assert one["valid_from"][:10] in row["Valid from"]
        assert one["until"][:10] in row["Until"]
    (own,) = (one for one in named if one["subject"] == "CN=for them")
    named.remove(own)
    by_use = {(one["whose"] == "us", one["uses"][0]): shown[one["sha256"]] for one in named}
    link, partner = path_of(agreement), reverse("partner_page", args=[agreement.partner.pk])
    assert len(by_use) == 5
    for key, where in (
        ((True, "signatures"), link),
        ((False, "signatures"), link),
        ((False, "CA certificate"), partner),
        ((False, "client certificate"), partner),
    ):
        assert f'href="{where}"' in by_use[key]["Used by"]
    assert f'href="{partner}"' in shown[own["sha256"]]["Used by"]
    assert by_use[True, "client certificate"]["Used by"] == "all other partners"


@pytest.mark.requirement("EB-172")
@pytest.mark.parametrize(
    ("begins", "ends", "word", "left"),
    [
        (-20, 400, "valid", "399 days left"),
        (-20, 29, "ends soon", "28 days left"),
        (-20, 2, "ends soon", "1 day left"),
        (-20, 1, "ends soon", "less than a day left"),
        (-20, -1, "ended", "1 day ago"),
        (2, 400, "not valid yet", "399 days left"),
    ],
)
def test_what_has_ended_or_ends_soon_is_said_in_words(
    viewer: Client, begins: int, ends: int, word: str, left: str
) -> None:
    pinned(new_key("them", begins, ends))
    (row,) = rows_of(viewer)
    date, *words = re.sub(r"<[^>]*>", " ", row["Until"]).split()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert " ".join(words) == f"{word} {left}"


@pytest.mark.requirement("EB-172")
def test_one_that_still_counts_after_its_end_is_shown_as_ended(viewer: Client) -> None:
    pinned(new_key("them", -20, -1), keep_expired=True, signed=True)
    (row,) = rows_of(viewer)
    assert "ended" in row["Until"]


@pytest.mark.requirement("EB-185")
def test_one_certificate_says_all_that_it_is_for(viewer: Client) -> None:
    both = new_key("them", -20, 400)
    pinned(both, encrypted=True, encryption_certificate="", signed=True)
    (row,) = rows_of(viewer)
    assert row["For"] == "signatures, encryption"


def test_those_that_end_first_come_first_and_the_rest_is_counted(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msh.admin.setup.certificates.MOST", 2)
    for days in (400, 300, 200):
        pinned(new_key(f"in {days}", -20, days))
    assert [row["Subject"].partition("CN=")[2][:6] for row in rows_of(viewer)] == [
        "in 200",
        "in 300",
    ]
    page = viewer.get(PAGE).content.decode()
    assert "1 more" in page


def test_ours_that_cannot_be_read_is_said_and_the_others_are_shown(
    viewer: Client, settings: Any
) -> None:
    pinned(new_key("them", -20, 400))
    settings.MSH_SIGNING_CERTIFICATE = ["/no/such/file"]
    page = viewer.get(PAGE).content.decode()
    assert "name as many files each" in page
    assert "CN=them" in page


def test_the_page_has_no_private_key(viewer: Client, settings: Any, tmp_path: Path) -> None:
    us = new_key("us", -1, 400)
    ours(settings, tmp_path, us)
    pinned(new_key("them", -20, 400), signed=True)
    page = viewer.get(PAGE).content.decode()
    assert "CN=us" in page
    assert us.certificate.fingerprint(SHA256()).hex() in page
    secret = us.private.decode().splitlines()[1:-1]
    assert "PRIVATE" not in page
    assert not [line for line in secret if line in page]


def test_names_of_certificates_are_text(viewer: Client) -> None:
    pinned(new_key("<b>them</b>\N{RIGHT-TO-LEFT OVERRIDE}", -20, 400))
    page = viewer.get(PAGE).content.decode()
    assert "<b>them" not in page
    assert "&lt;b" in page
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


@pytest.mark.parametrize("missing", ["view_partner", "view_agreement"])
def test_who_may_not_see_partners_and_agreements_sees_no_page_and_no_tab(missing: str) -> None:
    has = {"view_partner", "view_agreement"} - {missing}
    client = client_of("eve", *has)
    assert client.get(PAGE).status_code == 403
    of = url(Agreement, "changelist") if "view_agreement" in has else "/admin/partners/partner/"
    tabs = client.get(of).context["tab_list"]
    assert PAGE not in [one["link"] for tab in tabs for one in tab["items"]]


def test_it_is_a_tab_beside_the_agreements(viewer: Client) -> None:
    listed = viewer.get(url(Agreement, "changelist")).content.decode()
    assert f'href="{PAGE}"' in listed
    page = viewer.get(PAGE).content.decode()
    assert re.findall(r'class="active"[^>]*>\s*([^<]+?)\s*<', page) == ["Certificates"]
    assert viewer.post(PAGE).status_code == 405
