"""Further copies of what was taken or refused, and what is not taken now."""

from typing import Any

import pytest

from msh.models import InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers, assert_refused, let_answers_leave
from tests.peer.ebms2 import (
    message,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.requirement("EB-100", "EB-110", "EB-111", "EB-112")
@pytest.mark.parametrize("eliminates", [True, False])
def test_duplicate_gets_the_first_answer_again(send: Send, eliminates: bool) -> None:
    out = message(eliminates=eliminates)
    send(out)
    first = Signal.objects.get()

    for n in range(4):
        let_answers_leave()
        assert send(out.but(boundary=f"b{n}")).status == 204
        again = Signal.objects.get()
        assert (again.pending, bytes(again.body or b"")) == (1, bytes(first.body or b""))

    assert InboundMessage.objects.get().duplicates == 4


@pytest.mark.requirement("EB-040", "EB-112", "EB-114")
def test_time_to_live_is_asked_of_a_new_message_only(send: Send) -> None:
    late = message(time_to_live="2020-01-01T00:00:00Z")
    assert_refused(send, late, ("TimeToLiveExpired", "eb:TimeToLive"))

    known = message()
    send(known)
    let_answers_leave()
    assert send(known.but(time_to_live=late.time_to_live)).error == ""
    assert Signal.objects.get(ref_to_message_id=known.message_id).pending == 1


@pytest.mark.requirement("EB-110", "EB-112")
def test_refused_message_gets_the_first_error_again(send: Send) -> None:
    out = message(time_to_live="2020-01-01T00:00:00Z")
    said = send(out).error
    first = Signal.objects.get()
    let_answers_leave()

    assert send(out).error == said != ""

    again = Signal.objects.get()
    assert (again.pending, again.body) == (1, first.body)


@pytest.mark.requirement("EB-101")
def test_other_content_under_a_refused_id_is_inconsistent(send: Send) -> None:
    out = message(time_to_live="2020-01-01T00:00:00Z")
    send(out)

    send(out.but(action="Cancel"))

    assert not InboundMessage.objects.exists()
    assert [one.errors[0][0] for one in answers(out)] == ["TimeToLiveExpired", "Inconsistent"]


@pytest.mark.requirement("EB-114")
def test_duplicate_is_answered_while_the_partner_is_over_its_limit(
    send: Send, ebms2: Partner
) -> None:
    out = message()
    send(out)
    ebms2.undelivered_limit = 1
    ebms2.save()
    let_answers_leave()

    assert send(out).status == 204
    assert Signal.objects.get().pending == 1


@pytest.mark.requirement("EB-103")
@pytest.mark.parametrize("limit", ["undelivered_limit", "rate_limit"])
def test_limit_of_ours_is_503_and_nothing_is_stored(send: Send, ebms2: Partner, limit: str) -> None:
    setattr(ebms2, limit, 1)
    ebms2.save()
    send(message())

    response = send(message())

    assert (response.status, response.body) == (503, b"")
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert (InboundMessage.objects.count(), Signal.objects.count()) == (1, 1)


@pytest.mark.requirement("EB-101", "EB-112")
@pytest.mark.parametrize(
    "wrong", [{"action": "Cancel"}, {"timestamp": "never"}, {"references": ("cid:gone@peer",)}]
)
def test_wrong_copy_does_not_change_the_first_answer(send: Send, wrong: dict[str, Any]) -> None:
    out = message()

    for one in (out, out.but(**wrong), out, out):
        assert send(one).status == 204

    kinds = Signal.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["Acknowledgement", "Error"]
    assert InboundMessage.objects.get().duplicates == 2
