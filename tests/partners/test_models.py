"""Partners, credentials, agreements and our own identity."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from msh.store.receiving.senders import find_sender
from msh.transport.job import Access
from partners.models import (
    Agreement,
    Credential,
    CredentialKind,
    OwnIdentity,
    Partner,
    digest_of,
    our_identity,
)
from partners.models.agreement import BOUNDS
from partners.models.partner import OutgoingKind
from partners.secrecy import SecretUnreadableError
from tests.certificates import Authority

pytestmark = pytest.mark.django_db


def make_partner(name: str = "acme", **fields: Any) -> Partner:
    partner = Partner(name=name, **{"uri": f"http://{name}.example/ebxml/", **fields})
    partner.full_clean()
    partner.save()
    return partner


def make_agreement(partner: Partner, **fields: Any) -> Agreement:
    given = {"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}
    return Agreement(partner=partner, **{**given, **fields})


# --- the pair -----------------------------------------------------------------------------------
def test_addresses_default_one_to_the_other() -> None:
    partner = make_partner()
    assert partner.destination == partner.error_destination == partner.uri
    partner.address = "http://10.0.0.1/"
    assert partner.destination == partner.error_destination == "http://10.0.0.1/"
    partner.error_address = "http://10.0.0.2/"
    assert partner.error_destination == "http://10.0.0.2/"
    assert partner.destination == "http://10.0.0.1/"


def test_the_pair_is_compared_after_normalisation() -> None:
    partner = make_partner(our_uri="http://us.example/ebxml/acme/")
    ours, theirs = "HTTP://US.example:80/ebxml/acme/", "http://ACME.example:80/ebxml/"
    assert partner.is_pair(theirs, ours)
    assert not partner.is_pair(ours, theirs)
    assert not partner.is_pair(theirs + "x", ours)
    assert not partner.is_pair("", "")


def test_the_pair_falls_back_to_our_default_uri() -> None:
    partner = make_partner()
    assert partner.is_pair(partner.uri, our_identity().uri)
    OwnIdentity.objects.create(msh_uri="http://moved.example/")
    assert partner.is_pair(partner.uri, "http://moved.example")


@pytest.mark.parametrize(
    "same",
    [
        {"uri": "HTTP://ACME.example:80/ebxml/"},
        {"our_uri": "http://MSH.example/ebxml/"},
    ],
)
def test_a_pair_belongs_to_one_partner(same: dict[str, str]) -> None:
    first = make_partner()
    with pytest.raises(ValidationError, match="Partner acme has the same pair"):
        make_partner("other", **{"uri": first.uri, **same})
    make_partner("other", uri=first.uri, our_uri="http://msh.example/ebxml/other/")


def test_the_database_keeps_pairs_apart_too() -> None:
    first = make_partner(our_uri="http://us.example/")
    with pytest.raises(IntegrityError), transaction.atomic():
        Partner.objects.create(name="other", uri=first.uri, our_uri="http://US.example")


@pytest.mark.parametrize("field", ["uri", "our_uri"])
def test_the_pair_is_fixed_once_used(field: str) -> None:
    partner = make_partner(our_uri="http://us.example/")
    setattr(partner, field, "http://moved.example/")
    partner.full_clean()
    partner.save()
    Partner.objects.update(in_use=True)
    setattr(partner, field, "http://again.example/")
    with pytest.raises(ValidationError, match="If the host has moved, change the address"):
        partner.full_clean()


def test_a_used_pair_may_be_written_otherwise() -> None:
    partner = make_partner()
    Partner.objects.update(in_use=True)
    partner.our_uri = our_identity().uri
    partner.address = "http://moved.example/"
    partner.full_clean()


def test_our_uri_is_fixed_while_used_partners_rely_on_it() -> None:
    partner = make_partner()
    identity = OwnIdentity(msh_uri="http://moved.example/")
    identity.full_clean()
    Partner.objects.update(in_use=True)
    with pytest.raises(ValidationError, match="First set it as our_uri of these partners"):
        identity.full_clean()
    partner.our_uri = our_identity().uri
    partner.full_clean()
    partner.save()
    identity.full_clean()


def test_there_is_one_own_identity() -> None:
    OwnIdentity.objects.create(msh_uri="http://us.example/")
    with pytest.raises(IntegrityError), transaction.atomic():
        OwnIdentity.objects.create(pk=2, msh_uri="http://them.example/")


def test_our_identity_is_the_row_s_else_the_settings(settings: Settings) -> None:
    settings.MSH_URI, settings.MSH_ERROR_URI = "http://set.example/", "http://set.example/errors/"
    assert (our_identity().uri, our_identity().error_uri) == (
        "http://set.example/",
        "http://set.example/errors/",
    )
    row = OwnIdentity.objects.create(msh_uri="http://row.example/")
    assert (our_identity().uri, our_identity().error_uri) == ("http://row.example/",) * 2
    row.error_uri = "http://row.example/errors/"
    row.save()
    assert our_identity().error_uri == "http://row.example/errors/"


# --- who may come in ----------------------------------------------------------------------------
def test_a_partner_is_found_by_any_of_its_credentials() -> None:
    partner = make_partner()
    bearer = Credential(partner=partner)
    token = bearer.generate()
    bearer.save()
    basic = Credential(partner=partner, kind=CredentialKind.BASIC)
    user_and_password = basic.generate()
    basic.save()
    assert user_and_password.startswith("acme:")
    encoded = b64encode(user_and_password.encode()).decode()
    for header in (f"Bearer {token}", f"bearer  {token} ", f"BASIC {encoded}"):
        assert find_sender(header) == partner


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer wrong",
        "Basic",
        "Basic !!!",
        "Basic /w==",
        "Digest x",
        "token",
        "Bearer ü",
    ],
)
def test_other_headers_identify_no_partner(header: str) -> None:
    Credential.objects.create(partner=make_partner(), sha256=digest_of("token"))
    assert find_sender(header) is None


def test_a_basic_password_is_no_bearer_token() -> None:
    Credential.objects.create(
        partner=make_partner(), kind=CredentialKind.BASIC, sha256=digest_of("user:password")
    )
    assert find_sender("Bearer user:password") is None


def test_secrets_of_partners_are_not_kept() -> None:
    credential = Credential(partner=make_partner())
    token = credential.generate()
    credential.save()
    kept = str(list(Credential.objects.values()))
    assert len(token) >= 43
    assert token not in kept


@pytest.mark.parametrize(
    ("networks", "address", "admitted"),
    [
        ("", "203.0.113.9", True),
        ("192.0.2.0/24", "192.0.2.7", True),
        ("192.0.2.0/24", "::ffff:192.0.2.7", True),
        ("192.0.2.0/24", "192.0.3.7", False),
        ("192.0.2.0/24, 2001:db8::/32", "2001:db8::1", True),
        ("10.0.0.1\n10.0.0.2", "10.0.0.2", True),
        ("10.0.0.1", "2001:db8::1", False),
        ("10.0.0.1", "", False),
    ],
)
def test_a_partner_comes_from_its_networks_only(
    networks: str, address: str, admitted: bool
) -> None:
    assert make_partner(allowed_networks=networks).admits(address) is admitted


# --- our credential -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "secret", "header"),
    [
        (OutgoingKind.NONE, "", ""),
        (OutgoingKind.BEARER, "t0ken", "Bearer t0ken"),
        (OutgoingKind.BASIC, "us:pässword", "Basic dXM6cMOkc3N3b3Jk"),
    ],
)
def test_outgoing_credentials_are_encrypted(kind: OutgoingKind, secret: str, header: str) -> None:
    partner = make_partner()
    partner.show(kind, secret)
    partner.save()
    kept = Partner.objects.get()
    assert kept.authorization() == header
    assert not secret or secret not in kept.outgoing_secret


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        (OutgoingKind.BEARER, ""),
        (OutgoingKind.BEARER, "two words"),
        (OutgoingKind.BEARER, "line\r\nbreak"),
        (OutgoingKind.BASIC, "password"),
    ],
)
def test_unusable_credential_is_not_sent(kind: OutgoingKind, secret: str) -> None:
    with pytest.raises(ValidationError):
        Partner().show(kind, secret)


# --- how it is reached --------------------------------------------------------------------------
def test_password_of_the_http_proxy_is_encrypted_and_stays_with_its_address() -> None:
    partner = make_partner()
    assert partner.access() == Access()
    go_through(partner, "http://us:p%40ss@proxy.example:3128/")
    kept = Partner.objects.get()
    assert kept.http_proxy == "http://us@proxy.example:3128"
    assert "p%40ss" not in kept.http_proxy_secret
    assert kept.access() == Access(proxy="http://us:p%40ss@proxy.example:3128")
    secret = kept.http_proxy_secret
    for same in ("http://us@proxy.example:3128", "http://us:p%40ss@proxy.example:3128"):
        go_through(kept, same)
        assert kept.http_proxy_secret == secret
    go_through(kept, "http://us:other@proxy.example:3128")
    assert kept.access() == Access(proxy="http://us:other@proxy.example:3128")
    go_through(kept, "http://us@other.example:3128")
    assert kept.access() == Access(proxy="http://us@other.example:3128")
    go_through(kept, "http://[::1]:3128")
    assert kept.access() == Access(proxy="http://[::1]:3128")
    go_through(kept, "")
    assert kept.access() == Access()


def go_through(partner: Partner, proxy: str) -> None:
    for name, value in partner.proxied_by(proxy).items():
        setattr(partner, name, value)
    partner.full_clean()
    partner.save()


@pytest.mark.parametrize(
    "proxy",
    [
        "proxy.example:3128",
        "https://s3cret@proxy.example:3128",
        "http://proxy.example",
        "http://:s3cret@proxy.example:3128",
        "http://us:s3cret@proxy.example:0",
        "http://us:s3cret@proxy.example:65536",
        "http://us:s3cret@proxy.example:3128/path",
        "http://us:s3 cret@proxy.example:3128",
    ],
)
def test_proxy_that_makes_no_sense_is_refused_and_not_repeated(proxy: str) -> None:
    with pytest.raises(ValidationError) as problem:
        make_partner().proxied_by(proxy)
    assert "cret" not in str(problem.value)


def test_password_of_a_proxy_is_not_kept_in_clear() -> None:
    with pytest.raises(ValidationError, match="not kept in clear"):
        make_partner(http_proxy="http://us:s3cret@proxy.example:3128")


def test_credential_is_not_led_through_another_proxy_without_being_entered() -> None:
    partner = make_partner()
    partner.show(OutgoingKind.BEARER, "token")
    partner.save()
    partner.http_proxy = "http://proxy.example:3128"
    with pytest.raises(ValidationError, match="enter our credential again"):
        partner.full_clean()
    partner.show(OutgoingKind.BEARER, "token")
    partner.full_clean()
    partner.save()
    partner.http_proxy = ""
    partner.full_clean()


@pytest.mark.requirement("EB-189")
def test_authorities_of_a_partner_are_certificates_and_nothing_else(tmp_path: Path) -> None:
    authority = Authority()
    assert make_partner(ca_certificates=authority.pem).access() == Access(authority.pem)
    key = authority.write(tmp_path / "x.pem", "x").read_text()
    for text in (key, "nonsense"):
        with pytest.raises(ValidationError):
            make_partner(f"other-{len(text)}", ca_certificates=text)


def test_keys_rotate(settings: Settings) -> None:
    partner = make_partner()
    partner.show(OutgoingKind.BEARER, "token")
    old, new = settings.MSH_FERNET_KEYS[0], Fernet.generate_key().decode()
    settings.MSH_FERNET_KEYS = [new, old]
    assert partner.authorization() == "Bearer token"
    settings.MSH_FERNET_KEYS = [new]
    with pytest.raises(SecretUnreadableError, match="append that key to it"):
        partner.authorization()


# --- agreements ---------------------------------------------------------------------------------
@pytest.mark.requirement("000-020", "000-099", "000-100")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, bound + step)
        for field, ends in BOUNDS.items()
        for bound, step in zip(ends, (-1, 1), strict=True)
    ],
)
def test_impossible_values_are_refused_by_form_and_database(field: str, value: int) -> None:
    agreement = make_agreement(make_partner(), **{field: value})
    with pytest.raises(ValidationError, match="Must be"):
        agreement.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        agreement.save()


@pytest.mark.parametrize("end", [0, 1])
def test_the_bounds_themselves_are_possible(end: int, settings: Settings) -> None:
    settings.MSH_KEEP_MESSAGES = 1_000_000
    agreement = make_agreement(make_partner(), **{f: ends[end] for f, ends in BOUNDS.items()})
    agreement.full_clean()
    agreement.save()
    agreement.refresh_from_db()
    terms = agreement.terms()
    assert {f: getattr(terms, f) for f in BOUNDS} == {f: ends[end] for f, ends in BOUNDS.items()}


def test_a_tpa_is_agreed_once_with_a_partner() -> None:
    partner = make_partner()
    make_agreement(partner).save()
    with pytest.raises(ValidationError, match="another agreement with this TPAId"):
        make_agreement(partner).full_clean()
    make_agreement(make_partner("other")).full_clean()
