"""What an agreement of a dialect has, and what it has not."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.pem import SigningKey
from msh.protocol.flight.value import FlightTerms
from partners.export import exported
from partners.models import Agreement, Partner
from partners.models.dialects import Dialect, settings_of
from partners.presets import PRESETS
from partners.setup import AGREEMENT, SetupRefused, apply
from tests.keys import environment, new_key, pem_of

pytestmark = pytest.mark.django_db

EBMS2: dict[str, Any] = {
    "dialect": "ebms2",
    "tpa_id": "cpa-1",
    "our_party": "us",
    "our_party_type": "urn:duns",
    "their_party": "them",
    "their_role": "Seller",
    "retries": 2,
    "retry_interval": 30,
    "time_to_live": 3600,
    "persist_duration": 7200,
    "window": 4,
    "on_failure": "hold",
    "lenient": ["EB-048"],
    "retryable_codes": ["206"],
}


def document(*agreements: dict[str, Any], name: str = "acme") -> dict[str, Any]:
    uri = f"http://{name}.example/ebxml/"
    return {"partners": [{"name": name, "uri": uri, "agreements": list(agreements)}]}


def problems(*agreements: dict[str, Any], name: str = "acme") -> list[str]:
    with pytest.raises(SetupRefused) as refused:
        apply(document(*agreements, name=name))
    start = "partners[0].agreements[0]."
    return [problem.removeprefix(start) for problem in refused.value.problems]


def test_an_agreement_is_of_the_draft_unless_it_says_otherwise() -> None:
    apply(document({"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}))
    agreement = Agreement.objects.get()
    assert agreement.dialect == Dialect.TRP
    assert type(agreement.terms()).__name__ == "Terms"


@pytest.mark.parametrize("of", [EBMS2, {"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}])
def test_our_message_ids_are_in_the_order_of_their_time(of: dict[str, Any]) -> None:
    """000-088, EB-036: and unique."""
    apply(document(of))
    agreement = Agreement.objects.get()
    begin = time.time_ns() // 1_000_000
    ids = [agreement.settings.message_id(agreement) for _ in range(100)]
    end = time.time_ns() // 1_000_000
    assert len(set(ids)) == len(ids)
    for uuid in (UUID(one.partition("@")[0]) for one in ids):
        assert (uuid.version, uuid.variant) == (7, RFC_4122)
        assert begin <= uuid.int >> 80 <= end


def test_our_message_ids_of_one_millisecond_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    message_id, agreement = settings_of(Dialect.TRP).message_id, Agreement()
    ids = {message_id(agreement) for _ in range(10_000)}
    assert len(ids) == 10_000
    assert {UUID(one).int >> 80 for one in ids} == {1_800_000_000_000}


def test_settings_of_ebms2_are_kept_and_exported_by_their_names() -> None:
    apply(document(EBMS2))
    agreement = Agreement.objects.get()
    assert (agreement.our_party_context, agreement.window) == ("urn:duns", 4)
    assert agreement.terms() == FlightTerms(
        timeout=30, retries=2, retry_interval=30, time_to_live=3600, persist_duration=7200
    )
    (partner,) = exported()["partners"]
    (shown,) = partner["agreements"]
    assert {name: shown[name] for name in EBMS2} == EBMS2
    assert not {"timeout", "our_party_context", "on_unexpected_first"} & set(shown)
    assert {change.what for change in apply(exported()).changes} == {"unchanged"}


@pytest.mark.requirement("EB-197")
@pytest.mark.parametrize("of", [EBMS2, {"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}])
def test_an_agreement_may_have_an_end(of: dict[str, Any]) -> None:
    """Without an offset it is in UTC; an empty text takes it away."""
    for text, moment in (
        ("2027-12-31T23:59:59+01:00", datetime(2027, 12, 31, 22, 59, 59, tzinfo=UTC)),
        ("2028-01-01", datetime(2028, 1, 1, tzinfo=UTC)),
        ("", None),
    ):
        apply(document(of | {"ends": text}))
        assert Agreement.objects.get().ends == moment
        assert {change.what for change in apply(exported()).changes} == {"unchanged"}
    assert problems(of | {"ends": "soon"}) == ["ends: must be a time such as 2027-12-31T23:59:59Z."]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_gives_the_settings_that_are_not_named(preset: str) -> None:
    named = {"tpa_id": "cpa-1", "our_party": "us", "their_party": "them", "retries": 1}
    if PRESETS[preset].get("signed"):
        assert any("Needs the certificate" in one for one in problems({**named, "preset": preset}))
        named["certificate"] = pem_of(new_key("them"))
    for _ in range(2):
        report = apply(document({**named, "preset": preset}))
    assert {change.what for change in report.changes} == {"unchanged"}
    (partner,) = exported()["partners"]
    (shown,) = partner["agreements"]
    assert {**PRESETS[preset], **named, "dialect": "ebms2"}.items() <= shown.items()


def test_an_unknown_preset_is_refused() -> None:
    named = {"tpa_id": "cpa-1", "our_party": "us", "their_party": "them"}
    (problem,) = problems({**named, "preset": "hermes"})
    assert problem == "preset: there is no 'hermes'. Did you mean hermes-2?"


@pytest.mark.parametrize(
    ("dialect", "setting", "value", "problem"),
    [
        ("ebms2", "timeout", 60, "timeout: is a setting of dialect trp only."),
        ("ebms2", "our_party_context", "", "our_party_context: is a setting of dialect trp only."),
        ("trp", "window", 16, "window: is a setting of dialect ebms2 only."),
        ("trp", "lenient", [], "lenient: is a setting of dialect ebms2 only."),
        ("ebms2", "lenient", ["EB-028"], "lenient: EB-028 cannot be waived. Known: EB-022"),
        ("ebms2", "lenient", [22], "lenient: must be a list of strings, not of 22."),
        ("ebms2", "retryable_codes", [206], "retryable_codes: must be a list of strings"),
        ("ebms2", "retryable_codes", ["206 "], "retryable_codes: A code is empty or has space"),
        ("ebms2", "sync_reply", "signals", "sync_reply: Value 'signals' is not a valid choice."),
        ("ebms2", "window", 0, "window: Must be 1 or more."),
        ("ebms2", "soap_action", 'a"b', "soap_action: Only printable ASCII characters"),
        ("ebms2", "ack", "never", "ack: never needs semantics BestEffort."),
        ("ebms2", "on_failure", "wait", "on_failure: Value 'wait' is not a valid choice."),
        ("ebms3", "retries", 1, "dialect: Value 'ebms3' is not a valid choice."),
    ],
)
def test_what_a_dialect_has_not_is_refused_by_name(
    dialect: str, setting: str, value: object, problem: str
) -> None:
    parties = {"tpa_id": "x", "our_party": "us", "their_party": "them"}
    refused = problems({**parties, "dialect": dialect, setting: value})
    assert [one for one in refused if one.startswith(problem)], refused


@pytest.mark.requirement("EB-076", "EB-125")
@pytest.mark.parametrize(
    ("setting", "value"), [("ack", "never"), ("eliminates", "never"), ("sync_reply", "signalsOnly")]
)
def test_order_needs_acknowledgments_on_their_own_connection(setting: str, value: str) -> None:
    apply(document({**EBMS2, "ordered": True}))
    agreement = Agreement.objects.get()
    assert agreement.ordered
    setattr(agreement, setting, value)
    with pytest.raises(ValidationError) as refused:
        agreement.refuse_what_order_forbids()
    said = refused.value.message_dict[setting][0]
    assert said.startswith(f"{value} cannot be combined with ordered:")
    refused_by_setup = problems({**EBMS2, "ordered": True, setting: value})
    assert [one for one in refused_by_setup if one.startswith(f"{setting}: ")]


def test_a_form_cannot_set_what_the_dialect_has_not() -> None:
    apply(document({"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}))
    agreement = Agreement.objects.get()
    agreement.window = 3
    with pytest.raises(ValidationError) as refused:
        agreement.full_clean()
    assert refused.value.message_dict == {"window": ["An agreement of dialect trp has no window."]}


def test_a_partner_speaks_one_dialect_for_good() -> None:
    apply(document(EBMS2))
    draft = {"tpa_id": "tpa-1", "our_party": "1", "their_party": "2"}
    assert problems(draft)[0].startswith("dialect: Agreement cpa-1 with this partner has dialect")
    turned = problems({"tpa_id": "cpa-1", "dialect": "trp"})
    assert turned[0].startswith("dialect: Cannot be changed from ebms2")


def test_two_partners_do_not_share_cpa_and_parties() -> None:
    apply(document(EBMS2))
    (problem,) = problems(EBMS2, name="other")
    assert "There is another ebMS 2.0 agreement with this CPAId" in problem
    other = Partner.objects.create(name="other", uri="http://other.example/")
    same = {"tpa_id": "cpa-1", "our_party": "us", "their_party": "them", "dialect": "ebms2"}
    with pytest.raises(IntegrityError, match="agreement_ebms2_once"), transaction.atomic():
        Agreement.objects.create(partner=other, **same)


def test_message_ids_are_kept_for_the_persist_duration() -> None:
    apply(document({**EBMS2, "persist_duration": 200 * 86_400}))
    assert Agreement.objects.get().ids_kept().days == 200


def test_the_timeout_of_an_agreement_without_one_is_its_retry_interval() -> None:
    apply(document(EBMS2))
    apply(document({"tpa_id": "cpa-1", "retry_interval": 45}))
    agreement = Agreement.objects.get()
    assert (agreement.timeout, agreement.retry_interval) == (45, 45)
    agreement.full_clean()


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        ("urn:oasis:names:tc:ebxml-msg:service", "is reserved for the MSHs"),  # EB-035
        ("urn:orders new", "has white space"),  # EB-034
        ("Orders", "has no service_type, so it must be a URI"),  # EB-034
    ],
)
def test_what_cannot_be_sent_in_ebms2_is_refused_at_submission(service: str, problem: str) -> None:
    apply(document(EBMS2))
    with pytest.raises(SubmitRefused, match=problem):
        submit(Agreement.objects.get(), service, "New", [])


def test_a_service_with_a_type_need_not_be_a_uri() -> None:
    apply(document(EBMS2))
    message = submit(Agreement.objects.get(), "Orders", "New", [], service_type="name")
    assert message.service_interface == "Orders"


def test_a_message_id_of_ours_names_our_host() -> None:
    apply(document(EBMS2) | {"msh_uri": "http://us.example:8080/ebxml/"})
    message = submit(Agreement.objects.get(), "urn:orders", "New", [])
    assert message.message_id.endswith("@us.example")  # EB-036


def test_every_setting_belongs_to_a_dialect() -> None:
    fields = {field.name for field in Agreement._meta.fields if field.editable}
    fields -= {"id", "partner"}
    owned = {name for each in Dialect for name in settings_of(each).names.values()}
    assert owned == fields


@pytest.mark.requirement("EB-084", "EB-102")
@pytest.mark.parametrize(("seconds", "refused"), [(59, True), (60, True), (61, False), (0, False)])
def test_ids_are_kept_for_longer_than_copies_may_come(seconds: int, refused: bool) -> None:
    agreement = {**EBMS2, "time_to_live": 0, "persist_duration": seconds}
    if not refused:
        apply(document(agreement))
        return
    (problem,) = problems(agreement)
    assert "Must be longer than retries x retry_interval (60 s)" in problem


@pytest.mark.parametrize("dialect", Dialect)
def test_every_setting_can_be_set_by_a_document(dialect: Dialect) -> None:
    assert settings_of(dialect).names.keys() - AGREEMENT.keys() == set()


@pytest.mark.requirement("EB-040")
def test_tolerance_of_clocks_is_a_minute_unless_it_is_set() -> None:
    apply(document(EBMS2, {**EBMS2, "tpa_id": "cpa-2", "clock_tolerance": 0}))
    found = Agreement.objects.order_by("tpa_id").values_list("clock_tolerance", flat=True)
    assert list(found) == [60, 0]


@pytest.mark.requirement("EB-172", "EB-175")
def test_certificates_are_given_as_one_text_or_as_a_list() -> None:
    one, other = (pem_of(new_key(name)) for name in ("one", "other"))
    signed = {**EBMS2, "signed": True, "ack_signed": True, "allow_sha1": True, "keep_expired": True}
    apply(document({**signed, "certificate": [f"{one}\n", other]}))
    agreement = Agreement.objects.get()
    assert agreement.certificate == f"{one}\n{other}"
    for same in ([one, other], f"\n{one}\n{other}\n"):
        report = apply(document({**signed, "certificate": same}))
        assert {change.what for change in report.changes} == {"unchanged"}
    assert {change.what for change in apply(exported()).changes} == {"unchanged"}


@pytest.mark.requirement("EB-185")
def test_encryption_has_a_certificate_of_its_own_or_that_of_signatures() -> None:
    one, other = (pem_of(new_key(name)) for name in ("one", "other"))
    encrypted = {**EBMS2, "encrypted": True, "allow_rsa_1_5": True}
    apply(
        document(
            {**encrypted, "tpa_id": "cpa-1", "certificate": one},
            {**encrypted, "tpa_id": "cpa-2", "encryption_certificate": [one, other]},
            {**encrypted, "tpa_id": "cpa-3", "certificate": one, "encryption_certificate": other},
        )
    )
    found = {
        one.tpa_id: [pem.public_bytes(Encoding.PEM).decode().strip() for pem in certificates]
        for one in Agreement.objects.all()
        if (certificates := one.certificates_to_encrypt_for)
    }
    assert found == {"cpa-1": [one], "cpa-2": [one, other], "cpa-3": [other]}
    assert {one.encryption_method for one in Agreement.objects.all()} == {"aes256-gcm"}
    assert {change.what for change in apply(exported()).changes} == {"unchanged"}


@pytest.mark.requirement("EB-168")
def test_a_method_that_none_of_our_keys_fits_is_refused(settings: Any, tmp_path: Path) -> None:
    """Where it is set, with the cure. Without any key a check says so, and what is not signed may
    name any."""
    curved, them = new_key("us", curve=ec.SECP256R1()), pem_of(new_key("them"))
    signed = {**EBMS2, "certificate": them, "signed": True, "signature_method": "ecdsa-sha256"}
    apply(document({**signed, "tpa_id": "cpa-9"}))
    ours(settings, tmp_path, new_key("us"))
    why = "ecdsa-sha256 needs an EC key, and MSH_SIGNING_KEY names none: add one with its"
    cure = f"signature_method: {why} certificate, or choose a method such as rsa-sha256."
    assert problems(signed) == [cure]
    assert problems({**signed, "signed": False, "ack_signed": True}) == [cure]
    apply(document({**signed, "tpa_id": "cpa-8", "signed": False}))
    channel = {"direction": "out", "service": "urn:orders", "action": "New"}
    own = {**channel, "signature_method": "ecdsa-sha256"}
    by_channel = {**signed, "signature_method": "rsa-sha1", "channels": [own]}
    assert problems(by_channel) == [f"channels[0].{cure}"]

    ours(settings, tmp_path, curved)
    assert "rsa-sha1 needs an RSA key" in str(problems(by_channel))
    ours(settings, tmp_path, curved, new_key("us"))
    apply(document(by_channel))
    assert {change.what for change in apply(exported()).changes} == {"unchanged"}
    settings.MSH_SIGNING_KEY = settings.MSH_SIGNING_CERTIFICATE = ["/no/such/file"]
    apply(document({**signed, "tpa_id": "cpa-7"}))


def ours(settings: Any, folder: Path, *keys: SigningKey) -> None:
    for name, value in environment(folder, keys).items():
        setattr(settings, name, value.split(","))


@pytest.mark.requirement("EB-185", "EB-187")
@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"encrypted": True}, "encrypted: Needs a certificate of the partner for an RSA key"),
        (
            {"encryption_certificate": "signs only", "encrypted": True},
            "encryption_certificate: Needs a certificate of the partner for an RSA key",
        ),
        (
            {"encryption_certificate": "short", "encrypted": True},
            "encryption_certificate: Needs a certificate of the partner for an RSA key of 2048",
        ),
        ({"encryption_certificate": "PRIVATE KEY"}, "encryption_certificate: This has a private"),
        ({"encryption_method": "aes128-ecb"}, "encryption_method: "),
        ({"signature_method": "dsa-sha1"}, "signature_method: "),
        (
            {"certificate": "any", "encrypted": True, "encryption_method": "aes256-cbc"},
            "encryption_method: aes256-cbc needs signed messages.",
        ),
        ({"certificate": "any", "encrypted": True, "lenient": ["EB-185"]}, "lenient: EB-185"),
    ],
)
def test_what_cannot_be_encrypted_is_refused(terms: dict[str, Any], problem: str) -> None:
    made = {
        "any": pem_of(new_key("one")),
        "signs only": pem_of(new_key("signer", enciphers=False)),
        "short": pem_of(new_key("short", bits=1024)),
    }
    given = {key: made.get(str(value), value) for key, value in terms.items()}
    (found,) = problems({**EBMS2, **given})
    assert found.startswith(problem)


@pytest.mark.requirement("EB-166", "EB-172", "EB-175")
@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"signed": True}, "signed: Needs the certificate of the partner."),
        ({"ack_signed": True}, "ack_signed: Needs the certificate of the partner."),
        ({"certificate": 1}, "certificate: must be a string in quotes."),
        ({"certificate": ["a", 1]}, "certificate: must be a string in quotes."),
        ({"certificate": "secret"}, "certificate: This is no certificate in PEM"),
        ({"certificate": "PRIVATE KEY secret"}, "certificate: This has a private key"),
        ({"certificate": "secret" * 20_000}, "certificate: At most 65536 characters."),
        ({"certificate": True, "lenient": ["EB-175"]}, "lenient: EB-175 cannot be combined"),
        ({"certificate": True, "ack_signed": True, "ack_actor": "nextMSH"}, "ack_signed: Cannot"),
    ],
)
def test_what_cannot_be_verified_is_refused(terms: dict[str, Any], problem: str) -> None:
    """No text repeats what was given: it may be a key."""
    if terms.get("certificate") is True:
        terms = terms | {"certificate": pem_of(new_key("one"))}
    (found,) = problems({**EBMS2, **terms})
    assert found.startswith(problem)
    assert "secret" not in found
