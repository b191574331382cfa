"""Channels of an agreement: which one a message has, and what is not listed (EB-201)."""

from dataclasses import replace

import pytest

from msh.protocol.ebms.agreement import Agreed, breaches, under
from msh.protocol.ebms.channel import Channel, NotListed, channel_of, not_listed
from msh.protocol.ebms.message import Service
from msh.protocol.ebms.vocabulary import SERVICE, ErrorCode, Stage

from .test_arrival import AGREED, HEADER, MESSAGE

pytestmark = pytest.mark.requirement("EB-201")

ORDER = Channel("urn:orders", "New", {"ack": "never", "their_role": "Buyer"})
CHANGE = Channel("urn:orders", "Change", {})
STOCK = Channel("urn:stock", "New", {"ordered": True})
ERRORS = Channel(SERVICE, "MessageError", {})
ALL = (ORDER, CHANGE, STOCK, ERRORS)


def test_a_message_has_the_channel_of_its_service_and_action() -> None:
    assert channel_of(ALL, "urn:stock", "New") is STOCK
    assert channel_of(ALL, SERVICE, "MessageError") is ERRORS
    assert channel_of(ALL, "urn:stock", "Change") is None
    assert channel_of((), "urn:stock", "New") is None


@pytest.mark.parametrize(
    ("channels", "service", "action", "result"),
    [
        (ALL, "urn:orders", "New", None),
        (ALL, "urn:orders", "Old", NotListed("Action", ("Change", "New"))),
        (ALL, "urn:stock", "Change", NotListed("Action", ("New",))),
        (ALL, "urn:other", "New", NotListed("Service", ("urn:orders", "urn:stock"))),
        (ALL, "", "", NotListed("Service", ("urn:orders", "urn:stock"))),
        ((), "urn:other", "New", None),
        ((ERRORS,), "urn:other", "New", None),
    ],
)
def test_only_what_is_listed_may_be_sent_where_anything_is(
    channels: tuple[Channel, ...], service: str, action: str, result: NotListed | None
) -> None:
    assert not_listed(channels, service, action) == result


def test_a_term_of_the_channel_comes_before_that_of_the_agreement() -> None:
    agreed = replace(AGREED, channels=ALL, their_role="Seller", our_role="Shop")
    order = replace(HEADER, service=Service("urn:orders"), action="New")

    terms = under(agreed, order)

    assert (terms.ack, terms.their_role, terms.our_role) == ("never", "Buyer", "Shop")
    assert under(agreed, replace(order, action="Change")) == agreed
    assert under(AGREED, order) == AGREED


@pytest.mark.parametrize(
    ("service", "action", "place"),
    [("urn:other", "New", "eb:Service"), ("urn:orders", "Old", "eb:Action")],
)
def test_what_is_not_listed_is_not_recognised_and_nothing_else_is_said(
    service: str, action: str, place: str
) -> None:
    agreed: Agreed = replace(AGREED, channels=ALL, their_role="Seller")
    message = replace(MESSAGE, header=replace(HEADER, service=Service(service), action=action))

    (defect,) = breaches(message, agreed)

    assert (defect.rule, defect.stage, defect.waivable) == ("EB-201", Stage.HEADER, False)
    assert defect.error.code == ErrorCode.VALUE_NOT_RECOGNIZED
    assert defect.error.location.endswith(f"/{place}")
    assert "is none of those that agreement cpa-1 lists" in defect.error.description
