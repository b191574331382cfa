"""The Receiver's table through a socket: what is refused, and how (000 §5.2)."""

import pytest

from msh.models import InboundLink, InboundMessage
from tests.exchange.pair import WAITS, Pair, PairFactory
from tests.exchange.test_receiving_acks import take
from tests.peer import OMIT, Draft, Payload, Received, normal

NUMBER = "/ebXMLHeader/RoutingHeader/SequenceNumber"


def refused(partner: Pair, draft: Draft, code: str, location: str | None = None) -> Received:
    """Send a message that is to be refused; the Error Message that came for it."""
    response = partner.peer.send(draft)
    assert (response.status, response.body) == (204, b"")
    assert response.error, "the reason stands in X-MSH-Error too"
    came = partner.peer.received.wait_for_error(of=draft, timeout=WAITS)
    assert came.message.error_code == code
    if location is not None:
        assert came.message.text("ErrorHeader/Error/Location") == location
    assert not InboundMessage.objects.filter(
        message_id=draft.message_id, link__partner=partner.partner, sequence_number=None
    ).exists()
    assert partner.peer.received.acknowledgements(draft) == []
    return came


def last_number(partner: Pair) -> int | None:
    return InboundLink.objects.get(partner=partner.partner).last_number


@pytest.mark.requirement("000-060", "000-107")
def test_gap_is_an_error_and_changes_nothing(pair: PairFactory) -> None:
    partner = pair()
    take(partner, normal(sequence_number=1))
    missing = normal(sequence_number=4)
    came = refused(partner, missing, "SequenceGap", NUMBER)
    assert "2 to 3" in (came.message.text("ErrorHeader/Error/Description") or "")
    assert came.method == "POST"
    assert came.message.text("Header/ReliableMessagingInfo") == ""
    assert last_number(partner) == 1
    assert partner.incidents() == ["sequence_gap"]
    assert partner.msh.journal(missing.message_id) == []
    take(partner, normal(sequence_number=2))


@pytest.mark.requirement("000-107")
def test_first_number_above_one_is_a_gap(pair: PairFactory) -> None:
    partner = pair()
    refused(partner, normal(sequence_number=7), "SequenceGap", NUMBER)
    assert last_number(partner) is None


@pytest.mark.requirement("000-104")
def test_used_number_with_another_message_is_a_conflict(pair: PairFactory) -> None:
    """Not acknowledged and thrown away, as the draft would have it (D2)."""
    partner = pair()
    take(partner, normal(sequence_number=1))
    take(partner, normal(sequence_number=2))
    refused(partner, normal(sequence_number=2), "SequenceConflict", NUMBER)
    assert partner.incidents() == ["sequence_conflict"]


@pytest.mark.requirement("000-107")
def test_number_below_the_last_is_stale(pair: PairFactory) -> None:
    partner = pair()
    for number in (1, 2, 3):
        take(partner, normal(sequence_number=number))
    refused(partner, normal(sequence_number=2), "SequenceStale", NUMBER)
    assert partner.incidents() == ["sequence_stale"]
    assert last_number(partner) == 3


@pytest.mark.requirement("000-105")
def test_one_after_one_is_decided_by_message_id(pair: PairFactory) -> None:
    partner = pair()
    first, reset = normal(sequence_number=1), normal(sequence_number=1)
    take(partner, first)
    take(partner, reset)
    assert last_number(partner) == 1
    partner.peer.send(reset)
    counts = InboundMessage.objects.filter(link__partner=partner.partner).order_by("pk")
    assert list(counts.values_list("duplicates", flat=True)) == [0, 1]


@pytest.mark.requirement("000-047", "000-106")
def test_one_after_many_is_the_peers_reset(pair: PairFactory) -> None:
    partner = pair()
    for number in (1, 2, 1, 2):
        take(partner, normal(sequence_number=number))
    link = InboundLink.objects.get(partner=partner.partner)
    assert (link.last_number, link.epoch) == (2, 2)


@pytest.mark.parametrize(
    ("setting", "code"), [("refuse", "SequenceStale"), ("hold", "TransientError")]
)
def test_reset_that_the_agreement_does_not_want(pair: PairFactory, setting: str, code: str) -> None:
    partner = pair(on_unexpected_first=setting)
    take(partner, normal(sequence_number=1))
    take(partner, normal(sequence_number=2))
    refused(partner, normal(sequence_number=1), code)
    assert last_number(partner) == 2


@pytest.mark.requirement("000-046")
def test_numbers_wrap_around(pair: PairFactory) -> None:
    partner = pair()
    partner.start_link(999_999_997, "in")
    drafts = [normal(sequence_number=n) for n in (999_999_998, 999_999_999, 1, 2)]
    for draft in drafts:
        take(partner, draft)
    kept = InboundMessage.objects.filter(link__partner=partner.partner).order_by("pk")
    assert list(kept.values_list("message_id", flat=True)) == [d.message_id for d in drafts]
    assert last_number(partner) == 2
    assert partner.incidents() == []


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize(
    "number",
    ["0", "1000000000", "-1", "1.0", "\u0661", "", "000000000", "0x1", OMIT],
    ids=["0", "too large", "negative", "decimal", "Arabic-Indic", "empty", "zeros", "hex", "none"],
)
def test_number_that_is_none(pair: PairFactory, number: object) -> None:
    partner = pair()
    refused(partner, normal(sequence_number=number), "ValueNotRecognized", NUMBER)
    assert last_number(partner) is None


@pytest.mark.requirement("000-044")
def test_largest_number_is_taken(pair: PairFactory) -> None:
    partner = pair()
    partner.start_link(999_999_998, "in")
    take(partner, normal(sequence_number=999_999_999))


@pytest.mark.requirement("000-056")
def test_the_drafts_own_sample_is_read_as_23(pair: PairFactory) -> None:
    """White space around values, a number padded with zeros, a time in basic format (D32)."""
    partner = pair()
    partner.start_link(22, "in")
    sample = normal(
        sender_uri=f"\n            {partner.partner.uri}\n        ",
        receiver_uri=f"\n            {partner.msh.uri}\n        ",
        error_uri="\n            http://www.sender_company.com/ebxmlerrorhandler/\n        ",
        routing_timestamp="\n            19991110T102344.000Z\n        ",
        sequence_number="\n            000000023\n        ",
    )
    take(partner, sample)
    assert last_number(partner) == 23


@pytest.mark.requirement("000-002")
def test_message_id_with_other_content_is_refused(pair: PairFactory) -> None:
    partner = pair()
    first = normal(sequence_number=1)
    take(partner, first)
    other = first.but(sequence_number=2, payloads=(Payload(b"<Order>other</Order>"),))
    partner.peer.send(other)
    came = partner.peer.received.wait_for_error(of=first, timeout=WAITS)
    assert came.message.error_code == "MessageIdReused"
    assert len(partner.peer.received.acknowledgements(first)) == 1
    assert partner.incidents() == ["message_id_reused"]


@pytest.mark.requirement("000-002")
def test_rebuilt_copy_is_still_a_duplicate(pair: PairFactory) -> None:
    """Another boundary, encoding and time: the same message (D45)."""
    partner = pair()
    first = normal(sequence_number=1)
    take(partner, first)
    (payload,) = first["payloads"]
    rebuilt = first.but(
        boundary="quite-another-boundary",
        timestamp="20270101T000000.000Z",
        payloads=(Payload(payload.content, transfer_encoding="base64"),),
    )
    partner.peer.send(rebuilt)
    partner.peer.received.wait_for(
        lambda recording: len(recording.acknowledgements(first)) == 2, WAITS, "two Acks"
    )


@pytest.mark.requirement("000-036", "000-071")
@pytest.mark.parametrize("semantics", ["AtMostOnce", "onceandonlyonce", OMIT])
def test_other_semantics_are_refused(pair: PairFactory, semantics: object) -> None:
    partner = pair()
    refused(partner, normal(semantics=semantics, sequence_number=1), "ValueNotRecognized")


@pytest.mark.requirement("000-036")
def test_semantics_may_be_an_element(pair: PairFactory) -> None:
    """As the fragment of the draft writes it (D27)."""
    partner = pair()
    take(partner, normal(semantics=OMIT, semantics_element="OnceAndOnlyOnce", sequence_number=1))


@pytest.mark.requirement("000-036", "000-007")
def test_semantics_that_contradict_themselves_are_refused(pair: PairFactory) -> None:
    draft = normal(semantics="BestEffort", semantics_element="OnceAndOnlyOnce", sequence_number=1)
    partner = pair()
    partner.peer.send(draft)
    partner.peer.received.wait_for_error(of=draft, timeout=WAITS)
    assert last_number(partner) is None


@pytest.mark.requirement("000-040")
@pytest.mark.parametrize("field", ["error_uri", "routing_timestamp"])
def test_incomplete_routing_header_is_an_error(pair: PairFactory, field: str) -> None:
    partner = pair()
    draft = normal(sequence_number=1, **{field: OMIT})
    partner.peer.send(draft)
    partner.peer.received.wait_for_error(of=draft, timeout=WAITS)
    assert last_number(partner) is None


@pytest.mark.requirement("000-039", "000-040")
@pytest.mark.parametrize(
    "bent",
    [{"routing_headers": []}, {"sender_uri": OMIT}, {"receiver_uri": OMIT}],
    ids=["no RoutingHeader", "no SenderURI", "no ReceiverURI"],
)
def test_message_of_no_pair_is_400(pair: PairFactory, bent: dict[str, object]) -> None:
    partner = pair()
    response = partner.peer.send(normal(sequence_number=1, **bent))
    assert (response.status, response.body) == (400, b"")
    assert last_number(partner) is None


@pytest.mark.requirement("000-006")
@pytest.mark.parametrize("field", ["sender_uri", "receiver_uri"])
def test_message_to_somebody_else_is_refused_not_forwarded(pair: PairFactory, field: str) -> None:
    partner = pair()
    elsewhere = {field: "http://somebody.example/ebxml/"}
    response = partner.peer.send(normal(sequence_number=1, **elsewhere))
    assert (response.status, response.body) == (403, b"")
    assert "somebody.example" in response.error
    assert last_number(partner) is None


@pytest.mark.parametrize(
    "bent",
    [{"tpa_id": "never-agreed"}, {"from_party": "999999999"}, {"to_party": "999999999"}],
    ids=["TPAId", "From", "To"],
)
def test_message_without_agreement_is_a_security_failure(
    pair: PairFactory, bent: dict[str, object]
) -> None:
    """Who may send what (D48)."""
    partner = pair()
    refused(partner, normal(sequence_number=1, **bent), "SecurityFailure")
    assert last_number(partner) is None


@pytest.mark.requirement("000-057", "000-058")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_only_post_carries_a_message(pair: PairFactory, method: str) -> None:
    partner = pair()
    response = partner.peer.send(normal(sequence_number=1), method=method)
    assert (response.status, response.body) == (405, b"")
    assert last_number(partner) is None
