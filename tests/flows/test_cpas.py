"""`manage.py cpa`: a partner, its agreement and channels from a CPA 2.0."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.models import SettingChange
from msh.protocol.ebms.vocabulary import SERVICE
from partners.export import exported
from partners.models import Agreement, Channel, CpaDocument, Credential, Partner
from partners.setup import apply
from tests.keys import environment, new_key, pem_of
from tests.wire.cpas import ENCRYPTED, SIGNED, certificate_of, cpa

pytestmark = pytest.mark.django_db


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return tmp_path / "cpa.xml"


def imported(file: Path, content: bytes, *options: str) -> Any:
    file.write_bytes(content)
    text = StringIO()
    call_command("cpa", str(file), "--json", *options, stdout=text)
    return json.loads(text.getvalue())


def refusal(file: Path, content: bytes, *options: str) -> str:
    before = exported()
    with pytest.raises(CommandError) as refused:
        imported(file, content, *options)
    assert exported() == before
    assert not CpaDocument.objects.filter(content=content).exists()
    return str(refused.value).partition("\n")[2]


def what(answer: Any) -> set[tuple[str, str]]:
    return {(one["thing"], one["what"]) for one in answer["changes"]}


@pytest.mark.requirement("EB-195", "EB-196", "EB-197", "EB-201")
def test_a_cpa_becomes_a_partner_with_an_agreement_and_channels(given: Path) -> None:
    answer = imported(given, cpa(), "--we", "acme-1")
    assert (answer["we"], answer["partner"], answer["applied"]) == ("acme", "globex", True)
    (partner,) = exported()["partners"]
    assert (partner["uri"], partner["error_uri"]) == (
        *("https://globex.example/msh", "https://globex.example/errors"),
    )
    (agreement,) = partner["agreements"]
    expected = {
        "tpa_id": "cpa-1",
        "dialect": "ebms2",
        "ends": "2028-01-01T00:00:00+00:00",
        "our_party": "acme-1",
        "their_party": "globex-1",
        "their_party_type": "urn:duns",
        "our_role": "role of acme",
        "their_role": "role of globex",
        "service_type": "string",
        "ack": "always",
        "eliminates": "always",
        "ordered": True,
        "retries": 4,
        "retry_interval": 5_400,
        "persist_duration": 172_800,
        "signed": False,
        "encrypted": False,
        "sync_reply": "none",
    }
    assert {name: agreement[name] for name in expected} == expected
    assert agreement["channels"] == [
        {"direction": "in", "service": "Orders", "action": "Reply"},
        {"direction": "out", "service": "Orders", "action": "New"},
    ]
    kept = CpaDocument.objects.get()
    assert (bytes(kept.content), kept.version) == (cpa(), "2.0b")
    reasons = set(SettingChange.objects.values_list("kind", "reason"))
    named = ("Partner", "Agreement", "Channel", "CPA")
    assert reasons >= {(kind, "manage.py cpa cpa.xml") for kind in named}


@pytest.mark.requirement("EB-195", "EB-201")
def test_services_that_differ_only_by_type_are_channels_each(given: Path) -> None:
    content = cpa(types=("signed", "plain", "")).replace(b">Orders<", b">urn:orders<")
    answer = imported(given, content, "--we", "acme-1")
    assert "left out" not in str(answer["notes"])
    agreement = Agreement.objects.get()
    assert agreement.service_type == "signed"
    (partner,) = exported()["partners"]
    assert partner["agreements"][0]["channels"] == [
        {"direction": way, "service": "urn:orders", "action": action, **of_type}
        for way, action in (("in", "Reply"), ("out", "New"))
        for of_type in ({"service_type": ""}, {"service_type": "plain"}, {})
    ]
    again = imported(given, content)
    assert {one["what"] for one in again["changes"]} == {"unchanged"}


@pytest.mark.requirement("EB-201")
def test_under_a_cpa_that_lets_us_send_nothing_submissions_are_refused(given: Path) -> None:
    ours = rb'(?s)<tp:(Can\w+)><tp:ThisPartyActionBinding tp:id="\w+-New".*?</tp:\1>'
    answer = imported(given, re.sub(ours, b"", cpa()), "--we", "acme-1")
    assert "It lets us send nothing: submissions are refused." in answer["notes"]
    Partner.objects.update(in_use=True)
    with pytest.raises(SubmitRefused) as refused:
        submit(Agreement.objects.get(), "Orders", "New", [])
    why = "service_interface 'Orders', action 'New': agreement cpa-1 lists nothing that we send"
    assert str(refused.value) == why


@pytest.mark.requirement("EB-195")
def test_the_same_again_changes_nothing(given: Path) -> None:
    first = imported(given, cpa(SIGNED), "--we", "acme-1")
    assert ("agreement cpa-1 with globex", "added") in what(first)
    again = imported(given, cpa(SIGNED))
    assert {one["what"] for one in again["changes"]} == {"unchanged"}
    assert CpaDocument.objects.count() == 1


@pytest.mark.requirement("EB-195", "EB-200")
def test_a_changed_one_says_what_changes_and_for_how_many(given: Path) -> None:
    imported(given, cpa(), "--we", "acme-1")
    Partner.objects.update(in_use=True)
    submit(Agreement.objects.get(), "Orders", "New", [])
    changed = cpa().replace(b">4<", b">5<").replace(b"PT1H30M", b"PT1H")
    looked = imported(given, changed, "--dry-run")
    assert (looked["applied"], looked["under_way"]) == (False, 1)
    assert Agreement.objects.get().retries == 4
    text = StringIO()
    call_command("cpa", str(given), stdout=text)
    shown = text.getvalue()
    assert "agreement cpa-1 with globex: updated (retries, retry_interval)" in shown
    assert re.search(r'-\s+"retries": 4.*\n.*\+\s+"retries": 5', shown, re.DOTALL)
    assert "Messages under way under it: 1." in shown
    assert Agreement.objects.get().retries == 5
    assert [bytes(one.content) for one in CpaDocument.objects.all()] == [changed, cpa()]
    assert exported_to(given.with_name("exported.xml")) == changed


@pytest.mark.requirement("EB-195")
def test_an_import_that_fails_at_its_last_step_changes_nothing(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**values: object) -> None:
        assert Channel.objects.filter(agreement__tpa_id="cpa-1").exists()
        raise DatabaseError

    monkeypatch.setattr(CpaDocument.objects, "create", fail)
    before = exported()
    with pytest.raises(DatabaseError):
        imported(given, cpa(), "--we", "acme-1")
    assert exported() == before
    assert not Partner.objects.exists()


@pytest.mark.requirement("EB-195", "EB-198")
def test_a_signature_of_the_cpa_is_only_shown(given: Path) -> None:
    """It is verified by nobody, whatever it is."""
    inner = b'<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>'
    end = b"</tp:Packaging>"
    given.write_bytes(cpa().replace(end, end + b"<tp:Signature>" + inner + b"</tp:Signature>"))
    text = StringIO()
    call_command("cpa", str(given), "--we", "acme-1", stdout=text)
    assert "\nNote: It has a Signature, which is not verified.\n" in text.getvalue()
    assert Agreement.objects.get().tpa_id == "cpa-1"


@pytest.mark.requirement("EB-195", "EB-201")
def test_certificates_and_encryption_are_taken(given: Path) -> None:
    answer = imported(given, cpa(SIGNED + ENCRYPTED), "--we", "acme-1")
    agreement = Agreement.objects.get()
    assert (agreement.signed, agreement.encrypted, agreement.allow_sha1) == (True, True, False)
    assert agreement.certificate == certificate_of("globex")
    assert agreement.encryption_method == "aes256-gcm"
    assert "Our messages have to be signed: set MSH_SIGNING_KEY" in str(answer["notes"])


@pytest.mark.requirement("EB-198")
def test_an_encryption_that_we_do_not_know_is_said(given: Path) -> None:
    unknown = ENCRYPTED.replace("2009/xmlenc11#aes256-gcm", "2001/04/xmlenc#rc4")
    assert unknown != ENCRYPTED
    answer = imported(given, cpa(SIGNED + unknown), "--we", "acme-1")
    assert "EncryptionAlgorithm rc4 is not known: aes256-gcm is used." in answer["notes"]
    agreement = Agreement.objects.get()
    assert (agreement.encrypted, agreement.encryption_method) == (True, "aes256-gcm")


MORE = "http://www.w3.org/2001/04/xmldsig-more#"
OURS = f"{MORE}rsa-sha256"
ENC = "http://www.w3.org/2001/04/xmlenc#"


@pytest.mark.requirement("EB-168", "EB-195")
@pytest.mark.parametrize(
    ("method", "digest", "expected", "note"),
    [
        (f"{MORE}rsa-sha512", f"{ENC}sha512", "rsa-sha512", ""),
        (f"{MORE}ecdsa-sha256", f"{ENC}sha256", "ecdsa-sha256", ""),
        (
            "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
            "http://www.w3.org/2000/09/xmldsig#sha1",
            "rsa-sha1",
            "We sign by rsa-sha1, as it says: SHA-1 can be forged.",
        ),
        (OURS, f"{ENC}sha512", "rsa-sha256", f"HashFunction {ENC}sha512: ours is that of rsa"),
        (f"{MORE}rsa-md5", f"{ENC}sha256", "rsa-sha256", f"SignatureAlgorithm {MORE}rsa-md5 is"),
    ],
)
def test_a_cpa_says_by_what_we_sign(
    given: Path, method: str, digest: str, expected: str, note: str
) -> None:
    changed = SIGNED.replace(OURS, method).replace(f"{ENC}sha256", digest)
    answer = imported(given, cpa(changed), "--we", "acme-1")
    agreement = Agreement.objects.get()
    assert agreement.signature_method == expected
    assert not [one for one in agreement.channels.all() if one.signature_method]
    signing = [one for one in answer["notes"] if "sign" in one or "Hash" in one]
    assert note in str(signing)
    assert bool(note) == (len(signing) > 1), signing  # the other one: we have no key
    assert agreement.allow_sha1 == (expected == "rsa-sha1")


@pytest.mark.requirement("EB-168", "EB-195")
def test_a_cpa_whose_algorithm_fits_none_of_our_keys_is_refused(
    given: Path, settings: Any, tmp_path: Path
) -> None:
    for name, value in environment(tmp_path, [new_key("us")]).items():
        setattr(settings, name, [value])
    elliptic = cpa(SIGNED.replace("rsa-sha256", "ecdsa-sha256"))
    assert refusal(given, elliptic, "--we", "acme-1").startswith(
        "signature_method: ecdsa-sha256 needs an EC key, and MSH_SIGNING_KEY names none: add one"
    )


@pytest.mark.requirement("EB-195")
def test_a_certificate_that_is_only_named_is_given(given: Path, tmp_path: Path) -> None:
    named = re.sub(rb"(?s)<ds:X509Data>.*?</ds:X509Data>", b"", cpa(SIGNED))
    assert "Needs the certificate of the partner." in refusal(given, named, "--we", "acme-1")
    pem = tmp_path / "theirs.pem"
    pem.write_text(pem_of(new_key("theirs")))
    imported(given, named, "--we", "acme-1", "--certificate", str(pem))
    assert Agreement.objects.get().certificate == pem.read_text()


@pytest.mark.requirement("EB-178", "EB-195")
def test_the_certificate_of_before_stays_beside_the_next_one_until_it_ends(given: Path) -> None:
    """Messages that are under way are signed by it; what has ended signs nothing any more."""
    imported(given, cpa(SIGNED), "--we", "acme-1")
    old, ended, following = (
        certificate_of("globex"),
        pem_of(new_key("ended", begin=-2, end=-1)),
        pem_of(new_key("following")),
    )
    Agreement.objects.update(certificate=f"{old}\n{ended}")
    before, after = ("".join(one.splitlines()[1:-1]).encode() for one in (old, following))
    changed = cpa(SIGNED).replace(before, after)
    answer = imported(given, changed)
    assert Agreement.objects.get().certificate == f"{following}\n{old}"
    assert "stays beside" in str(answer["notes"])
    assert "CN=globex" in str(answer["notes"])
    again = imported(given, changed)
    assert {one["what"] for one in again["changes"]} == {"unchanged"}
    Agreement.objects.update(certificate=following)
    assert {one["what"] for one in imported(given, changed)["changes"]} == {"unchanged"}
    assert Agreement.objects.get().certificate == following


@pytest.mark.requirement("EB-196")
def test_who_we_are_is_asked_once(given: Path) -> None:
    assert "neither acme (acme-1) nor globex (globex-1)" in refusal(given, cpa())
    imported(given, cpa(), "--we", "globex-1")
    assert imported(given, cpa())["we"] == "globex"


@pytest.mark.requirement("EB-197")
@pytest.mark.parametrize(
    ("place", "change", "why", "later"),
    [
        (b'value="agreed"', b'value="proposed"', "Its Status is proposed", True),
        (b"2026-01-01", b"2027-01-01", "It begins on 2027-01-01.", True),
        (b"2028-01-01", b"2026-02-01", "It has ended on 2026-02-01.", False),
    ],
)
def test_a_cpa_out_of_force_is_refused(
    given: Path, place: bytes, change: bytes, why: str, later: bool
) -> None:
    document = cpa().replace(place, change)
    assert why in refusal(given, document, "--we", "acme-1")
    if later:
        imported(given, document, "--we", "acme-1", "--not-yet")
    else:
        assert why in refusal(given, document, "--we", "acme-1", "--not-yet")


@pytest.mark.requirement("EB-195", "EB-199")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"<a/>", "begins with CollaborationProtocolAgreement"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "has a DOCTYPE: remove it"),
        (cpa().replace(b"https://globex.example", b"ftp://x"), "has no endpoint of http"),
        (cpa().replace(b">4<", b">99999<"), "retries: Must be 10000 or less."),
        (b" " * (5 << 20), "at most 4194304"),
    ],
)
def test_what_cannot_be_used_changes_nothing(given: Path, content: bytes, why: str) -> None:
    assert why in refusal(given, content, "--we", "acme-1")


@pytest.mark.requirement("EB-195")
def test_the_partner_is_the_one_that_has_the_party(given: Path) -> None:
    """Or one without agreements that is called so; or the one that is named."""
    uri = "https://elsewhere.example/"
    globex = Partner.objects.create(name="globex", uri=uri)
    Credential.objects.create(partner=globex, sha256="0" * 64)
    answer = imported(given, cpa(), "--we", "acme-1")
    assert what(answer) >= {("partner globex", "updated")}
    globex.refresh_from_db()
    assert (globex.uri, globex.address) == (uri, "https://globex.example/msh")
    assert not any("no credential" in note for note in answer["notes"])

    other = cpa().replace(b"cpa-1", b"cpa-2")
    assert imported(given, other)["partner"] == "globex"
    assert Partner.objects.count() == 1
    strange = cpa().replace(b"globex-1", b"globex-2")
    assert "has agreements with other parties" in refusal(given, strange)
    at_hub = {}
    for name in ("globex-2", "globex-3"):
        imported(given, strange.replace(b"globex-2", name.encode()), "--partner", name)
        at_hub[name] = Partner.objects.get(name=name)
    address = "https://globex.example/msh"
    assert [one.uri for one in at_hub.values()] == [address, "https://globex-3.invalid/"]
    assert {one.destination for one in at_hub.values()} == {address}


@pytest.mark.requirement("EB-198", "EB-201")
def test_what_differs_by_action_is_on_its_channel(given: Path) -> None:
    """globex sends by a channel of its own kind; what acme sends goes elsewhere than signals do."""
    document = cpa().replace(b"<tp:ChannelId>globex-business", b"<tp:ChannelId>globex-signals")
    imported(given, document, "--we", "acme-1")
    incoming = Channel.objects.get(direction="in")
    assert incoming.terms == {"ack": "never", "eliminates": "never", "ordered": False}
    assert Channel.objects.get(direction="out").terms == {}


def test_the_cpa_stays_when_its_agreement_is_deleted(given: Path) -> None:
    imported(given, cpa(), "--we", "acme-1")
    Agreement.objects.all().delete()
    assert bytes(CpaDocument.objects.get(agreement=None).content) == cpa()


def exported_to(file: Path, *options: str) -> bytes:
    call_command("cpa", str(file), "--export", "cpa-1", *options, stdout=StringIO())
    return file.read_bytes()


@pytest.mark.requirement("EB-200")
def test_a_cpa_is_exported_as_it_came(given: Path) -> None:
    content = b"\n".join((cpa(), b"<!-- agreed on Monday -->"))
    imported(given, content, "--we", "acme-1")
    assert exported_to(given) == content
    with pytest.raises(CommandError, match="with CPAId 'cpa-9'"):
        call_command("cpa", str(given), "--export", "cpa-9")


def by_hand(settings: Any, folder: Path) -> Agreement:
    us, them, curved = new_key("us"), new_key("them"), new_key("us", curve=ec.SECP256R1())
    for name, value in environment(folder, [us, curved]).items():
        setattr(settings, name, value.split(","))
    settings.MSH_DECRYPTION_KEY = settings.MSH_SIGNING_KEY[:1]
    signal = {"service": SERVICE, "action": "MessageError", "address": "https://h.example/e"}
    agreement = {
        "preset": "ebms-core",
        "tpa_id": "cpa-1",
        "our_party": "1",
        "our_party_type": "urn:osb:oin",
        "their_party": "2",
        "their_party_type": "urn:osb:oin",
        "our_role": "Buyer",
        "their_role": "Seller",
        "service_type": "urn:osb:services",
        "signed": True,
        "ack_signed": True,
        "signature_method": "rsa-sha512",
        "encrypted": True,
        "certificate": pem_of(them),
        "retries": 5,
        "retry_interval": 300,
        "persist_duration": 1_800,
        "ends": "2031-01-01T00:00:00+00:00",
        "channels": [
            {"direction": "out", "service": "orders", "action": "new"},
            {"direction": "out", "service": "orders", "action": "ask", **_PLAIN, **_ELSEWHERE},
            {"direction": "out", "service": "orders", "action": "sum", **_OTHER},
            {"direction": "in", "service": "orders", "action": "confirm", "our_role": "Desk"},
            {"direction": "out", **signal},
        ],
    }
    partner = {"name": "them", "uri": "https://them.example/ebms", "agreements": [agreement]}
    apply({"partners": [partner]})
    return Agreement.objects.get()


_PLAIN = {
    "ack": "never",
    "eliminates": "never",
    "semantics": "BestEffort",
    "signed": False,
    "ack_signed": False,
    "encrypted": False,
}
_OTHER = {"signature_method": "ecdsa-sha384"}
_ELSEWHERE = {"address": "https://them.example/questions", "sync_reply": "signalsAndResponse"}


@pytest.mark.requirement("EB-200")
def test_a_cpa_made_of_an_agreement_is_that_agreement(
    given: Path, settings: Any, tmp_path: Path
) -> None:
    """And its partner reads the same from the other side."""
    agreement = by_hand(settings, tmp_path)
    before = exported()
    content = exported_to(given, "--partner", "them")
    assert f"{MORE}rsa-sha512".encode() in content
    answer = imported(given, content)
    changed = {tuple(one["fields"]) for one in answer["changes"] if one["what"] == "updated"}
    assert changed <= {("encryption_certificate",)}
    after = exported()
    for document in (before, after):
        del document["partners"][0]["agreements"][0]["encryption_certificate"]
    assert after == before

    agreement.partner.delete()
    imported(given, content, "--we", "2")
    mirrored = Agreement.objects.get()
    assert (mirrored.our_party, mirrored.their_party) == ("2", "1")
    assert mirrored.partner.uri == settings.MSH_URI
    ours = {one.action: one.direction for one in mirrored.channels.all()}
    assert ours == {"confirm": "out", "new": "in", "ask": "in", "sum": "in"}
    assert mirrored.encryption_certificate in mirrored.certificate
    assert mirrored.signature_method == "rsa-sha512"


@pytest.mark.requirement("EB-200")
def test_an_agreement_without_actions_makes_no_cpa(settings: Any, tmp_path: Path) -> None:
    agreement = by_hand(settings, tmp_path)
    agreement.channels.all().delete()
    with pytest.raises(CommandError, match="lists no Services and Actions"):
        exported_to(tmp_path / "cpa.xml")
