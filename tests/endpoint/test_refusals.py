"""A partner whose messages are refused, each with a MessageId of its own, without end."""

from collections.abc import Callable

import pytest
from django.db.models import Sum

from msh.flows.sending.submit import submit
from msh.models import History, InboundMessage, Signal
from partners.models import Agreement, Credential, Partner, digest_of
from tests.flows import byhand
from tests.peer import Draft, Peer, acknowledgement, error, normal

Drafting = Callable[[int], Draft]

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 300
FIRST = 100
"""So many at once are answered by an Error Message each."""
MORE = 10
"""And one more each minute: what a busy machine may let through meanwhile."""


def flood(peer: Peer, drafts: list[Draft]) -> dict[int, int]:
    """How often each status was the answer."""
    statuses = [peer.send(draft).status for draft in drafts]
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def assert_bounded(answers: dict[int, int]) -> None:
    assert set(answers) == {204, 429}
    assert FIRST <= answers[204] <= FIRST + MORE


def no_agreement(count: int) -> list[Draft]:
    return [normal(sequence_number=n % 9 + 1, tpa_id="tpa-none") for n in range(1, count + 1)]


@pytest.mark.requirement("000-021")
def test_refused_message_ids_without_end_make_a_bounded_number_of_rows(
    peer: Peer, partner: Partner
) -> None:
    answers = flood(peer, no_agreement(MANY))

    assert_bounded(answers)
    assert Signal.objects.count() == answers[204]
    assert set(Signal.objects.values_list("code", flat=True)) == {"SecurityFailure"}
    more = History.objects.filter(event="RefusalsNotAnswered")
    assert 1 <= more.count() <= MORE
    assert more.aggregate(n=Sum("times"))["n"] == answers[429] == MANY - answers[204]
    assert History.objects.exclude(event="RefusalsNotAnswered").count() == answers[204]


def test_refusal_without_an_error_message_is_retried_later(peer: Peer, partner: Partner) -> None:
    flood(peer, no_agreement(FIRST + MORE))

    refused = peer.send(normal(sequence_number=1, tpa_id="tpa-none"))

    assert refused.status == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert "too many of your messages were refused" in refused.error
    assert peer.send(normal(sequence_number=1)).status == 204
    assert InboundMessage.objects.get().link.partner == partner


def test_another_partner_is_answered_as_ever(peer: Peer, web: str) -> None:
    flood(peer, no_agreement(FIRST + MORE))
    other = Partner.objects.create(name="other", uri="http://other.example/ebxml/")
    Credential.objects.create(partner=other, sha256=digest_of("another"))
    Agreement.objects.create(
        partner=other, tpa_id="tpa-4711", our_party="111111111", their_party="222222222"
    )
    with Peer(web, msh_uri=peer.msh_uri, uri=other.uri, token="another") as honest:
        assert honest.send(normal(sequence_number=2)).status == 204
        assert honest.send(normal(sequence_number=1)).status == 204
    assert Signal.objects.filter(link__partner=other).count() == 2


@pytest.mark.parametrize(
    "draft",
    [
        lambda n: normal(sequence_number=n),
        lambda n: normal(sequence_number=n, message_id="the same"),
        lambda n: normal(sequence_number=n, timestamp="yesterday"),
    ],
    ids=["gap", "gaps of one id", "unreadable field"],
)
def test_refusals_are_bounded(peer: Peer, partner: Partner, draft: Drafting) -> None:
    assert_bounded(flood(peer, [draft(n) for n in range(2, FIRST + 2 * MORE)]))
    assert Signal.objects.count() <= FIRST + MORE
    assert History.objects.count() <= FIRST + 2 * MORE


@pytest.mark.parametrize(
    "draft",
    [
        lambda n: acknowledgement(f"unknown-{n}"),
        lambda n: acknowledgement(f"unknown-{n}", timestamp="yesterday"),
        lambda n: error(f"unknown-{n}", "NotSupported"),
        lambda n: error("done", "NotSupported", description=f"problem {n}"),
    ],
    ids=["unknown Ack", "refused Ack", "unknown Error", "Errors"],
)
def test_signals_that_move_nothing_are_taken_and_bounded(
    peer: Peer, partner: Partner, draft: Drafting
) -> None:
    submit(Agreement.objects.get(), "Orders", "New", [], message_id="done")
    (job,) = byhand.poll()
    byhand.end(job)
    assert peer.send(acknowledgement("done")).status == 204
    before = History.objects.count()

    answers = flood(peer, [draft(n) for n in range(FIRST + 2 * MORE)])

    assert answers == {204: FIRST + 2 * MORE}
    assert History.objects.count() - before <= FIRST + 2 * MORE
    more = History.objects.filter(event="SignalsNotNoted")
    assert (more.aggregate(n=Sum("times"))["n"] or 0) >= MORE


def test_copies_after_a_transient_error_are_not_limited(peer: Peer, partner: Partner) -> None:
    """Else a store that is full for an hour suspends its partners."""
    Partner.objects.filter(pk=partner.pk).update(rate_limit=1)
    assert peer.send(normal(sequence_number=1)).status == 204
    waiting = normal(sequence_number=2, message_id="waits")

    assert set(flood(peer, [waiting] * (FIRST + MORE))) == {204}

    assert Signal.objects.get(code="TransientError").pending == FIRST + MORE
