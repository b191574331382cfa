"""The Receiver's table through a socket: what is refused, and how (000 §5.2). That an Error Message
reaches the partner, and a refused message no application: tests/exchange/test_receiving_acks.py."""

from typing import Any

import pytest

from msh.flows.operations import change_link
from msh.models import InboundLink, InboundMessage, Incident, Signal
from msh.store.history import Actor
from partners.models import Agreement, Partner
from tests.peer import OMIT, Draft, Payload, Peer, normal

pytestmark = pytest.mark.django_db(transaction=True)

NUMBER = "/ebXMLHeader/RoutingHeader/SequenceNumber"


def take(peer: Peer, *drafts: Draft) -> None:
    """Send messages that are to be accepted."""
    for draft in drafts:
        response = peer.send(draft)
        assert (response.status, response.error) == (204, "")
        assert InboundMessage.objects.filter(message_id=draft.message_id).exists()
        assert Signal.objects.filter(
            kind="Acknowledgement", ref_to_message_id=draft.message_id
        ).exists()


def take_numbers(peer: Peer, *numbers: int) -> None:
    take(peer, *(normal(sequence_number=number) for number in numbers))


def refused(peer: Peer, draft: Draft, code: str) -> Signal:
    """Send a message that is to be refused; the Error Message that waits to be sent for it."""
    before = list(InboundMessage.objects.values())
    last = last_number()
    response = peer.send(draft)
    assert (response.status, response.body) == (204, b"")
    assert response.error, "the reason stands in X-MSH-Error too"
    assert (list(InboundMessage.objects.values()), last_number()) == (before, last)
    error = Signal.objects.get(kind="Error")
    assert (error.code, error.ref_to_message_id, error.pending) == (code, draft.message_id, 1)
    return error


def last_number() -> int | None:
    link = InboundLink.objects.first()
    return link.last_number if link else None


def incidents() -> list[str]:
    return list(Incident.objects.values_list("kind", flat=True))


def start_after(partner: Partner, last: int) -> None:
    change_link.start_link(partner, "in", last, Actor("tester", "the test says so"))


@pytest.mark.parametrize(
    ("taken", "number", "code", "incident"),
    [
        pytest.param([1], 4, "SequenceGap", "sequence_gap",
                     marks=pytest.mark.requirement("000-107")),
        pytest.param([], 7, "SequenceGap", "sequence_gap",
                     marks=pytest.mark.requirement("000-107")),
        # Not acknowledged and thrown away, as the draft would have it (D2).
        pytest.param([1, 2], 2, "SequenceConflict", "sequence_conflict",
                     marks=pytest.mark.requirement("000-104")),
        pytest.param([1, 2, 3], 2, "SequenceStale", "sequence_stale",
                     marks=pytest.mark.requirement("000-107")),
    ],
)  # fmt: skip
def test_number_out_of_turn_is_an_error_and_changes_nothing(
    peer: Peer, taken: list[int], number: int, code: str, incident: str
) -> None:
    take_numbers(peer, *taken)
    assert refused(peer, normal(sequence_number=number), code).location == NUMBER
    assert incidents() == [incident]
    take_numbers(peer, len(taken) + 1)


@pytest.mark.requirement("000-105")
def test_one_after_one_is_decided_by_message_id(peer: Peer) -> None:
    first, reset = normal(sequence_number=1), normal(sequence_number=1)
    take(peer, first, reset)
    assert last_number() == 1
    peer.send(reset)
    counts = InboundMessage.objects.order_by("pk").values_list("duplicates", flat=True)
    assert list(counts) == [0, 1]


@pytest.mark.requirement("000-047", "000-106")
def test_one_after_many_is_the_peers_reset(peer: Peer) -> None:
    take_numbers(peer, 1, 2, 1, 2)
    link = InboundLink.objects.get()
    assert (link.last_number, link.epoch) == (2, 2)


@pytest.mark.parametrize(
    ("setting", "code"), [("refuse", "SequenceStale"), ("hold", "TransientError")]
)
def test_reset_that_the_agreement_does_not_want(peer: Peer, setting: str, code: str) -> None:
    Agreement.objects.update(on_unexpected_first=setting)
    take_numbers(peer, 1, 2)
    refused(peer, normal(sequence_number=1), code)


@pytest.mark.requirement("000-044", "000-046")
def test_numbers_wrap_around_after_the_largest(peer: Peer, partner: Partner) -> None:
    start_after(partner, 999_999_997)
    take_numbers(peer, 999_999_998, 999_999_999, 1, 2)
    assert (last_number(), incidents()) == (2, [])


@pytest.mark.requirement("000-044")
@pytest.mark.parametrize(
    "number",
    ["0", "1000000000", "-1", "1.0", "\u0661", "", "000000000", "0x1", OMIT],
    ids=["0", "too large", "negative", "decimal", "Arabic-Indic", "empty", "zeros", "hex", "none"],
)
def test_number_that_is_none(peer: Peer, number: object) -> None:
    error = refused(peer, normal(sequence_number=number), "ValueNotRecognized")
    assert error.location == NUMBER


@pytest.mark.requirement("000-056")
def test_the_drafts_own_sample_is_read_as_23(peer: Peer, partner: Partner) -> None:
    """White space around values, a number padded with zeros, a time in basic format (D32)."""
    start_after(partner, 22)
    sample = normal(
        sender_uri=f"\n            {partner.uri}\n        ",
        receiver_uri=f"\n            {peer.msh_uri}\n        ",
        error_uri="\n            http://www.sender_company.com/ebxmlerrorhandler/\n        ",
        routing_timestamp="\n            19991110T102344.000Z\n        ",
        sequence_number="\n            000000023\n        ",
    )
    take(peer, sample)
    assert last_number() == 23


@pytest.mark.requirement("000-002")
def test_message_id_with_other_content_is_refused(peer: Peer) -> None:
    first = normal(sequence_number=1)
    take(peer, first)
    other = first.but(sequence_number=2, payloads=(Payload(b"<Order>other</Order>"),))
    refused(peer, other, "MessageIdReused")
    assert Signal.objects.get(kind="Acknowledgement").pending == 1
    assert incidents() == ["message_id_reused"]


@pytest.mark.requirement("000-002")
def test_rebuilt_copy_is_still_a_duplicate(peer: Peer) -> None:
    """Another boundary, encoding and time: the same message (D45)."""
    first = normal(sequence_number=1)
    take(peer, first)
    (payload,) = first["payloads"]
    rebuilt = first.but(
        boundary="quite-another-boundary",
        timestamp="20270101T000000.000Z",
        payloads=(Payload(payload.content, transfer_encoding="base64"),),
    )
    take(peer, rebuilt)
    assert InboundMessage.objects.get().duplicates == 1
    assert Signal.objects.get().pending == 2


@pytest.mark.requirement("000-036")
def test_semantics_may_be_an_element(peer: Peer) -> None:
    """As the fragment of the draft writes it (D27)."""
    take(peer, normal(semantics=OMIT, semantics_element="OnceAndOnlyOnce", sequence_number=1))


@pytest.mark.parametrize(
    ("bent", "code"),
    [
        *(
            pytest.param({"semantics": value}, "ValueNotRecognized",
                         marks=pytest.mark.requirement("000-036", "000-071"))
            for value in ("AtMostOnce", "onceandonlyonce", OMIT)
        ),
        pytest.param({"semantics": "BestEffort", "semantics_element": "OnceAndOnlyOnce"},
                     "Inconsistent", marks=pytest.mark.requirement("000-036", "000-007")),
        *(
            pytest.param({field: OMIT}, "ValueNotRecognized",
                         marks=pytest.mark.requirement("000-040"))
            for field in ("error_uri", "routing_timestamp")
        ),
        # Who may send what (D48).
        *(
            ({field: value}, "SecurityFailure")
            for field, value in
            (("tpa_id", "never-agreed"), ("from_party", "999999999"), ("to_party", "999999999"))
        ),
    ],
)  # fmt: skip
def test_value_that_is_wrong_or_missing_is_an_error(
    peer: Peer, bent: dict[str, Any], code: str
) -> None:
    refused(peer, normal(sequence_number=1, **bent), code)


OF_NO_PAIR: tuple[dict[str, Any], ...] = (
    {"routing_headers": []},
    {"sender_uri": OMIT},
    {"receiver_uri": OMIT},
)
ELSEWHERE = "http://somebody.example/ebxml/"


@pytest.mark.parametrize(
    ("bent", "status"),
    [
        *(pytest.param(bent, 400, marks=pytest.mark.requirement("000-039", "000-040"))
          for bent in OF_NO_PAIR),
        *(pytest.param({field: ELSEWHERE}, 403, marks=pytest.mark.requirement("000-006"))
          for field in ("sender_uri", "receiver_uri")),
    ],
)  # fmt: skip
def test_message_of_no_pair_of_ours_is_refused_and_not_forwarded(
    peer: Peer, bent: dict[str, Any], status: int
) -> None:
    response = peer.send(normal(sequence_number=1, **bent))
    assert (response.status, response.body) == (status, b"")
    assert status == 400 or "somebody.example" in response.error
    assert not InboundMessage.objects.exists()
    assert not Signal.objects.exists()
