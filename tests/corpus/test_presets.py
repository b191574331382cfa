"""The messages of each product, under an agreement with the preset of this product."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from msh.flows.operations.cpas import Wanted, plan
from msh.protocol.ebms.agreement import Agreed, breaches, is_between
from msh.protocol.ebms.message import Message, Party, PartyId
from msh.wire.ebms2.envelope import parse
from partners.models import Agreement
from partners.presets import PRESETS
from partners.setup import apply
from tests.keys import new_key, pem_of

from .reading import Outcome, read_corpus
from .test_signed import read as captured

pytestmark = pytest.mark.django_db

FOLDERS = {
    "nhs-mhs": "nhs-spine",
    "nhs-gp2gp": "nhs-spine",
    "nhs-nia": "nhs-spine",
    "navikt-processor": "nav-no",
    "navikt-signatur": "webmethods",
    "hermes": "hermes-2",
}


def party_of(party: Party, preset: str, name: str) -> tuple[str, dict[str, str]]:
    """The PartyId of the type that the preset has; or the first one, whose type is then said."""
    wanted = PRESETS[preset].get(name)
    of_type = (one.value for one in party.party_ids if one.type == wanted)
    if found := next(of_type, ""):
        return found, {}
    return party.party_ids[0].value, {name: party.party_ids[0].type}


def agreed(preset: str, message: Message) -> Agreed:
    """As the parties and roles of the message are, which no preset knows."""
    header = message.header
    ours, our_type = party_of(header.to_party, preset, "our_party_type")
    theirs, their_type = party_of(header.from_party, preset, "their_party_type")
    document = {
        "preset": preset,
        "tpa_id": header.cpa_id,
        "our_party": ours,
        "their_party": theirs,
        "our_role": header.to_party.role,
        "their_role": header.from_party.role,
        "certificate": pem_of(new_key("them")),
        "sync_reply": "mshSignalsOnly" if message.sync_reply else "none",
    }
    document |= our_type | their_type
    partner = {"name": "them", "uri": "https://them.example/", "agreements": [document]}
    apply({"partners": [partner]})
    row = Agreement.objects.get()
    found = Agreed(
        cpa_id=row.tpa_id,
        our_party=PartyId(row.our_party, row.our_party_context),
        their_party=PartyId(row.their_party, row.their_party_context),
        our_role=row.our_role,
        their_role=row.their_role,
        ack=row.ack,
        eliminates=row.eliminates,
        lenient=frozenset(row.lenient),
        sync_reply=row.sync_reply,
        ordered=row.ordered,
        service_type=row.service_type,
        signed=row.signed,
        ack_signed=row.ack_signed,
        can_sign=True,
        certificates=(row.certificate,),
        encrypted=row.encrypted,
    )
    row.partner.delete()
    return found


def message_of(outcome: Outcome) -> Message:
    return parse(outcome.request.content_type, outcome.request.body).message


def not_tolerated(preset: str, message: Message) -> set[str]:
    terms = agreed(preset, message)
    return {one.rule for one in breaches(message, terms)} - terms.lenient


def business(corpus: Path) -> Mapping[str, list[Outcome]]:
    """Messages that are read, by the folder of their product."""
    found: dict[str, list[Outcome]] = {}
    for outcome in read_corpus(corpus):
        if outcome.reason or outcome.fault:
            continue
        if not message_of(outcome).header.kind.is_signal:
            folder = outcome.request.file.partition("/")[0]
            found.setdefault(folder, []).append(outcome)
    return found


def test_messages_of_each_product_are_taken_under_its_preset(corpus: Path) -> None:
    counted: Counter[str] = Counter()
    for folder, outcomes in business(corpus).items():
        for outcome in outcomes if folder in FOLDERS else ():
            message, label = message_of(outcome), outcome.label
            preset = FOLDERS[folder]
            assert not_tolerated(preset, message) == set(), label
            header = message.header
            terms = agreed(preset, message)
            assert is_between(terms, header.from_party, header.to_party), label
            counted[preset] += 1
    assert set(counted) == set(FOLDERS.values())
    assert counted["nhs-spine"] > 50
    assert counted["nav-no"] > 4


@pytest.mark.parametrize("preset", ["digikoppeling", "digikoppeling-rm", "ebms-core"])
def test_reliable_messages_of_ebms_core_are_taken(corpus: Path, preset: str) -> None:
    """As its gateway sends them, and spoilt by its own tests: none is best effort."""
    for outcome in business(corpus)["ebms-core"]:
        message, label = message_of(outcome), outcome.label
        is_spoilt = any(word in label for word in ("MissingDuplicate", "MissingAckRequested"))
        wrong = {"EB-043"} if is_spoilt and preset != "digikoppeling" else set()
        assert not_tolerated(preset, message) == wrong, label
        assert not_tolerated("digikoppeling-be", message) == {"EB-043"}, label


@pytest.mark.requirement("EB-099")
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("interop.signed.ack", "digikoppeling-rm-signed"),
        ("interop.signed256.ack", "digikoppeling-rm-signed"),
        ("interop.encrypted", "digikoppeling-rm-encrypted"),
    ],
)
def test_signed_messages_of_ebms_core_are_taken(
    corpus: Path, name: str, preset: str, count: int
) -> None:
    content_type, body = captured(corpus / "captured", f"{name}.{count}.message")
    message = parse(content_type, body).message
    assert message.signed
    assert all(one.signed for one in message.ack_requested)
    assert not_tolerated(preset, message) == set()


@pytest.mark.requirement("EB-195")
@pytest.mark.parametrize(
    ("file", "preset"),
    [
        ("cpaStubEBF.be.http.unsigned", "digikoppeling-be"),
        ("cpaStubEBF.be.https.signed", "digikoppeling-be-signed"),
        ("cpaStubEBF.rm.http.unsigned", "digikoppeling-rm"),
        ("cpaStubEBF.rm.https.signed.ackSigned", "digikoppeling-rm-signed"),
    ],
)
def test_the_presets_of_digikoppeling_are_those_of_its_cpas(
    corpus: Path, file: str, preset: str
) -> None:
    """But for the times, which each CPA chooses."""
    content = (corpus / f"ebms-core/cpas/{file}.xml").read_bytes()
    planned = plan(content, Wanted(we="00000000000000000000"), datetime(2026, 11, 28, tzinfo=UTC))
    (agreement,) = planned.document["partners"][0]["agreements"]
    given = PRESETS[preset]
    times = {"persist_duration", "time_to_live"}
    assert {name: agreement[name] for name in given.keys() - times} == {
        name: given[name] for name in given.keys() - times
    }
