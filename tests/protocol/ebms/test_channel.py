"""Channels of an agreement: which one a message has, and what is not listed (EB-201)."""

from dataclasses import replace

import pytest

from msh.protocol.ebms.agreement import Agreed, breaches, parties_of, signs_errors, under
from msh.protocol.ebms.channel import (
    Channel,
    NotListed,
    channel_of,
    lists_anything,
    not_listed,
    type_meant,
    types_listed,
)
from msh.protocol.ebms.message import Service
from msh.protocol.ebms.vocabulary import SERVICE, ErrorCode, Kind, Stage

from .test_arrival import AGREED, HEADER, MESSAGE

pytestmark = pytest.mark.requirement("EB-201")

ORDER = Channel("urn:orders", "New", {"ack": "never", "their_role": "Buyer"})
CHANGE = Channel("urn:orders", "Change", {})
STOCK = Channel("urn:stock", "New", {"ordered": True})
ERRORS = Channel(SERVICE, "MessageError", {})
ALL = (ORDER, CHANGE, STOCK, ERRORS)


def test_a_message_has_the_channel_of_its_service_and_action() -> None:
    assert channel_of(ALL, Service("urn:stock"), "New") is STOCK
    assert channel_of(ALL, Service(SERVICE), "MessageError") is ERRORS
    assert channel_of(ALL, Service("urn:stock"), "Change") is None
    assert channel_of((), Service("urn:stock"), "New") is None


def of_types(*types: str) -> list[Channel]:
    return [Channel("urn:orders", "New", {}, one) for one in types]


@pytest.mark.parametrize(
    ("types", "of_message", "usual", "found"),
    [
        (["a", "b"], "b", "", "b"),
        (["a", ""], "a", "", "a"),
        (["a", ""], "b", "a", ""),
        (["a", ""], "", "a", ""),
        (["a", "b", "c"], "x", "b", "b"),
        (["a", "b", "c"], "", "b", "b"),
        (["b", "a"], "x", "c", "b"),
    ],
)
def test_of_services_that_differ_by_type_the_one_of_the_message_is_chosen(
    types: list[str], of_message: str, usual: str, found: str
) -> None:
    channels = [*of_types(*types), STOCK]
    channel = channel_of(channels, Service("urn:orders", of_message), "New", usual)
    assert channel == Channel("urn:orders", "New", {}, found)
    assert types_listed(channels, "urn:orders", "New") == tuple(sorted(types))
    assert types_listed(channels, "urn:orders", "Old") == ()


@pytest.mark.parametrize(
    ("types", "usual", "meant"),
    [
        (("a",), "b", "a"),
        (("a", "b"), "b", "b"),
        (("", "a", "b"), "b", "b"),
        (("", "a", "b"), "c", ""),
        (("a", "b"), "c", None),
        (("a", "b"), "", None),
    ],
)
def test_which_type_is_meant_where_none_is_named(
    types: tuple[str, ...], usual: str, meant: str | None
) -> None:
    assert type_meant(types, usual) == meant


@pytest.mark.requirement("EB-034")
@pytest.mark.parametrize(
    ("types", "of_message", "said"),
    [
        (["a", "b"], "a", ""),
        (["a", "b"], "x", "must be of type a or b"),
        (["a", "b"], "", "must be of type a or b"),
        (["", "a"], "x", ""),
    ],
)
def test_a_type_that_no_channel_has_is_not_recognised(
    types: list[str], of_message: str, said: str
) -> None:
    channels = [replace(one, terms={"signed": one.agreed_type == "a"}) for one in of_types(*types)]
    agreed = replace(AGREED, channels=tuple(channels), service_type="x")
    header = replace(HEADER, service=Service("urn:orders", of_message), action="New")
    terms = under(agreed, header)
    assert terms.signed is (types == ["a", "b"])  # the first one of both
    found = [*breaches(replace(MESSAGE, header=header), terms)]
    assert [one.error.description.partition(" ")[2] for one in found] == [said] * bool(said)
    assert all((one.rule, one.waivable) == ("EB-034", True) for one in found)


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


@pytest.mark.parametrize(
    ("channels", "result"),
    [
        ((), NotListed("Service", ())),
        ((ERRORS,), NotListed("Service", ())),
        (ALL, None),
    ],
)
def test_nothing_may_be_sent_where_only_the_other_direction_lists_anything(
    channels: tuple[Channel, ...], result: NotListed | None
) -> None:
    assert not_listed(channels, "urn:orders", "New", lists=True) == result


def test_channels_of_signals_alone_list_nothing() -> None:
    assert [lists_anything(one) for one in ((), (ERRORS,), ALL)] == [False, False, True]


def test_a_term_of_the_channel_comes_before_that_of_the_agreement() -> None:
    agreed = replace(AGREED, channels=ALL, their_role="Seller", our_role="Shop")
    order = replace(HEADER, service=Service("urn:orders"), action="New")

    terms = under(agreed, order)

    assert (terms.ack, terms.their_role, terms.our_role) == ("never", "Buyer", "Shop")
    assert under(agreed, replace(order, action="Change")) == agreed
    assert under(AGREED, order) == AGREED


def test_signals_have_the_roles_of_their_channel() -> None:
    errors = Channel(SERVICE, "MessageError", {"our_role": "Shop"})
    agreed = replace(AGREED, signals=(errors,), our_role="Seller", their_role="Buyer")
    roles = {kind: [one.role for one in parties_of(agreed, kind)] for kind in Kind}
    assert roles.pop(Kind.MESSAGE_ERROR) == ["Shop", "Buyer"]
    assert [*roles.values()] == [["Seller", "Buyer"]] * len(roles)


@pytest.mark.parametrize(
    ("terms", "can_sign", "signed"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"signed": False}, True, False),
        ({"signed": True}, True, True),
        ({"signed": True}, False, False),
    ],
)
def test_errors_are_signed_if_they_can_be_unless_their_channel_says_no(
    terms: dict[str, bool], can_sign: bool, signed: bool
) -> None:
    errors = Channel(SERVICE, "MessageError", terms)
    agreed = replace(AGREED, signals=(errors,), can_sign=can_sign)
    assert signs_errors(agreed) is signed


@pytest.mark.parametrize(
    ("of_ack", "of_message", "of_agreement", "signed"),
    [
        (None, None, True, True),
        (None, False, True, False),
        (None, True, False, True),
        (False, True, True, False),
        (True, False, False, True),
        (True, None, False, True),
    ],
)
def test_the_channel_of_acknowledgments_says_whether_they_are_signed(
    of_ack: bool | None, of_message: bool | None, of_agreement: bool, signed: bool
) -> None:
    """Else the channel of what they acknowledge, else the agreement."""
    message = {} if of_message is None else {"ack_signed": of_message}
    ack = {} if of_ack is None else {"signed": of_ack}
    agreed = replace(
        AGREED,
        channels=(Channel("urn:orders", "New", message),),
        signals=(Channel(SERVICE, "Acknowledgment", ack),),
        ack_signed=of_agreement,
    )
    order = replace(HEADER, service=Service("urn:orders"), action="New")
    assert under(agreed, order).ack_signed is signed


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
