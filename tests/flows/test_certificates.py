"""The certificates of signatures: listed, and an operator is called before one ends."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.management import CommandError, call_command
from django.utils import timezone

from msh.flows.operations.certificates import call_for_ending, certificates
from msh.models import Incident
from msh.pem import SigningKey
from msh.transport.job import Access
from partners.models import Agreement, Channel, Credential, Partner
from tests.certificates import Authority
from tests.keys import environment, new_key, pem_of

from .flying import Sky

pytestmark = pytest.mark.django_db


def pin(sky: Sky, *keys: SigningKey, **terms: Any) -> None:
    agreement = sky.agreement
    agreement.certificate = "\n".join(map(pem_of, keys))
    for name, value in terms.items():
        setattr(agreement, name, value)
    agreement.full_clean()
    agreement.save()


def ours(settings: Any, folder: Path, *keys: SigningKey) -> None:
    for name, value in environment(folder, keys).items():
        setattr(settings, name, value.split(","))


def called() -> list[tuple[str, str]]:
    call_for_ending()
    opened = Incident.objects.filter(resolved_at=None).order_by("kind")
    return [(one.kind, one.detail.rpartition(" ends on ")[0]) for one in opened]


@pytest.mark.requirement("EB-172")
def test_an_operator_is_called_twice_before_a_certificate_ends(sky: Sky) -> None:
    of = f"the certificate of agreement {sky.agreement}"
    for days, expected in (
        (40, []),
        (29, [("certificate_ends", of)]),
        (6, [("certificate_ends_soon", of)]),
        (-1, [("certificate_ends_soon", of)]),
    ):
        pin(sky, new_key("them", -20, days))
        assert called() == expected
        assert called() == expected
    pin(sky, new_key("them", -20, -1), new_key("next", -1, 400))
    assert called() == []


@pytest.mark.requirement("EB-172")
def test_nobody_is_called_for_one_that_is_kept_after_its_end(sky: Sky) -> None:
    pin(sky, new_key("them", -20, 6), keep_expired=True)
    assert called() == []


@pytest.mark.requirement("EB-185")
def test_an_operator_is_called_before_nothing_can_be_encrypted_any_more(sky: Sky) -> None:
    """Also if signatures count after the end of a certificate."""
    of = f"the certificate for encryption of agreement {sky.agreement}"
    them, ends = new_key("them", -20, 400), new_key("ends", -20, 6)
    pin(sky, them, encrypted=True, encryption_certificate=pem_of(ends))
    assert called() == [("certificate_ends_soon", of)]
    pin(sky, them, encryption_certificate=f"{pem_of(ends)}\n{pem_of(them)}")
    assert called() == []
    pin(sky, ends, encryption_certificate="", keep_expired=True)
    assert called() == [("certificate_ends_soon", of)]
    pin(sky, ends, encrypted=False)
    assert called() == []

    pin(sky, them, encryption_certificate=pem_of(ends))
    text = StringIO()
    call_command("certificates", "--json", stdout=text)
    listed = json.loads(text.getvalue())
    assert [one["subject"] for one in listed] == ["CN=them", "CN=ends"]
    assert [one["used_by"] for one in listed] == [[sky.agreement.tpa_id]] * 2


@pytest.mark.requirement("EB-178", "EB-201")
@pytest.mark.parametrize("by_channel", [False, True])
def test_an_operator_is_called_for_ours(
    sky: Sky, settings: Any, tmp_path: Path, by_channel: bool
) -> None:
    pin(sky, new_key("them", -1, 400), signed=not by_channel)
    about = {"agreement": sky.agreement, "direction": "out", "service": "urn:orders"}
    Channel.objects.create(**about, action="New", signed=True)
    Channel.objects.create(**about, action="Hint")
    ours(settings, tmp_path, new_key("us", -1, 20))
    call_for_ending()
    assert called() == [("certificate_ends", "the certificate of MSH_SIGNING_CERTIFICATE")]
    ours(settings, tmp_path, new_key("us", -1, 20), new_key("next", -1, 400))
    assert called() == []
    settings.MSH_SIGNING_KEY = ["/no/such/file"]
    settings.MSH_SIGNING_CERTIFICATE = ["/no/such/file"]
    assert called() == []


@pytest.mark.requirement("EB-168", "EB-178")
def test_a_key_of_one_kind_does_not_stand_in_for_one_of_the_other(
    sky: Sky, settings: Any, tmp_path: Path
) -> None:
    ours(settings, tmp_path, *(both := (new_key("us", -1, 20), curved("us", 400))))
    pin(sky, new_key("them", -1, 400), signed=True)
    used = {one.certificate: one.used_by for one in certificates()[0] if one.whose == "us"}
    assert used == {both[0].certificate: (sky.agreement.tpa_id,), both[1].certificate: ()}
    assert called() == [("certificate_ends", "the certificate of MSH_SIGNING_CERTIFICATE")]
    pin(sky, new_key("them", -1, 400), signature_method="ecdsa-sha256")
    assert called() == []


def curved(name: str, end: int) -> SigningKey:
    return new_key(name, -1, end, curve=ec.SECP256R1())


@pytest.mark.requirement("EB-197")
def test_an_operator_is_called_before_an_agreement_ends_and_when_it_has(sky: Sky) -> None:
    of, now = f"agreement {sky.agreement}", timezone.now()
    for days, expected in (
        (31, []),
        (29, [("agreement_ends", f"{of} ends on ")]),
        (-1, [("agreement_ended", f"{of} has ended on ")]),
        (60, []),
    ):
        end = now + timedelta(days=days)
        Agreement.objects.update(ends=end)
        call_for_ending()
        opened = Incident.objects.filter(resolved_at=None)
        assert [(one.kind, one.detail) for one in opened] == [
            (kind, f"{text}{end:%Y-%m-%d}") for kind, text in expected
        ]
    Agreement.objects.update(ends=None)
    call_for_ending()
    assert not Incident.objects.filter(resolved_at=None).exists()


@pytest.mark.requirement("EB-172")
def test_certificates_are_listed_with_who_uses_them(
    sky: Sky, settings: Any, tmp_path: Path
) -> None:
    us, them = new_key("us", -1, 20), new_key("them", -1, 400)
    pin(sky, them, signed=True)
    ours(settings, tmp_path, us)
    text, listed = StringIO(), StringIO()
    call_command("certificates", stdout=text)
    call_command("certificates", "--json", stdout=listed)
    rows = json.loads(listed.getvalue())
    assert [(one["whose"], one["subject"], one["used_by"]) for one in rows] == [
        ("us", "CN=us", [sky.agreement.tpa_id]),
        (sky.partner.name, "CN=them", [sky.agreement.tpa_id]),
    ]
    print_of = them.certificate.fingerprint(hashes.SHA256()).hex()
    assert rows[1]["sha256"] == print_of
    assert rows[1]["serial"] == f"{them.certificate.serial_number:X}"
    assert print_of in text.getvalue()
    assert f"{them.certificate.not_valid_after_utc:%Y-%m-%d}" in text.getvalue()

    settings.MSH_SIGNING_CERTIFICATE = []
    with pytest.raises(CommandError, match="name as many files each"):
        call_command("certificates")


@pytest.mark.requirement("EB-189")
def test_a_message_goes_out_under_the_certificate_of_its_partner(sky: Sky) -> None:
    Partner.objects.filter(pk=sky.partner.pk).update(client_certificate="acme")
    sky.submit()
    (job,) = sky.poll()
    assert job.access == Access(certificate="acme")


@pytest.mark.requirement("EB-188", "EB-189")
def test_certificates_of_tls_are_listed_and_called_for(
    sky: Sky, settings: Any, tmp_path: Path
) -> None:
    def given(days: int) -> None:
        authority = Authority("authority", days=(-20, days))
        client = authority.write(tmp_path / f"{days}.pem", "them", days=(-20, days)).read_text()
        sky.partner.ca_certificates = authority.pem
        sky.partner.save()
        sky.partner.credentials.exclude(pem="").delete()
        credential = Credential(partner=sky.partner)
        credential.certify(client[client.index("-----BEGIN CERTIFICATE") :])
        credential.save()
        ours = authority.write(tmp_path / f"{days}-ours.pem", "us", days=(-20, days))
        settings.MSH_CLIENT_CERTIFICATE = str(ours)

    def called_for() -> set[tuple[str, str]]:
        call_for_ending()
        opened = Incident.objects.filter(resolved_at=None)
        return {(one.kind, one.detail.rpartition(" ends on ")[0]) for one in opened}

    given(400)
    assert called_for() == set()
    listed = StringIO()
    call_command("certificates", "--json", stdout=listed)
    rows = json.loads(listed.getvalue())
    assert [(one["whose"], one["subject"], one["used_by"]) for one in rows] == [
        ("us", "CN=us", ["client certificate"]),
        (sky.partner.name, "CN=authority", ["CA certificate"]),
        (sky.partner.name, "CN=them", ["client certificate"]),
    ]
    of = "the certificate of MSH_CLIENT_CERTIFICATE"
    given(29)
    assert called_for() == {("certificate_ends", of)}
    given(6)
    assert called_for() == {("certificate_ends_soon", of)}
    given(400)
    assert called_for() == set()
    folder = tmp_path / "clients"
    folder.mkdir()
    settings.MSH_CLIENT_CERTIFICATES = str(folder)
    Authority("authority").write(folder / "acme.pem", "acme", days=(-20, 6))
    Partner.objects.filter(pk=sky.partner.pk).update(client_certificate="acme")
    sky.partner.refresh_from_db()
    own = "the certificate acme of MSH_CLIENT_CERTIFICATES"
    assert called_for() == {("certificate_ends_soon", own)}
    used = {one.subject: one.used_by for one in certificates()[0] if one.whose == "us"}
    assert used == {"CN=us": ("client certificate",), "CN=acme": (sky.partner.name,)}
    (folder / "acme.pem").unlink()
    settings.MSH_CLIENT_CERTIFICATES = str(tmp_path)
    assert certificates()[1] == [f"{tmp_path}/acme.pem: No such file or directory"]
    Partner.objects.update(client_certificate="")
    sky.partner.refresh_from_db()
    for what in ("CA certificate", "client certificate"):
        given(400)
        assert called_for() == set()
        given(6)
        settings.MSH_CLIENT_CERTIFICATE = ""
        if what == "client certificate":
            Partner.objects.update(ca_certificates="")
        its = f"the certificate of partner {sky.partner.name}, its {what},"
        assert called_for() == {("certificate_ends_soon", its)}
