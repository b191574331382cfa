"""The channels of an agreement of ebMS 2.0, as they are set up (EB-201)."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from msh.flows.operations import configure
from msh.models import SettingChange
from msh.protocol.ebms.vocabulary import SERVICE
from msh.store.history import Actor
from partners.export import exported
from partners.models import Agreement, Channel, Partner
from partners.models.agreement import BOUNDS
from partners.models.channel import OF_INCOMING, OF_SIGNAL, TERMS
from partners.models.ebms2 import BOUNDS as EBMS2_BOUNDS
from partners.setup import AGREEMENT, CHANNEL, apply
from tests.keys import new_key, pem_of

from .test_dialects import EBMS2, document, problems

pytestmark = [pytest.mark.django_db, pytest.mark.requirement("EB-201")]

AGREED: dict[str, Any] = {**EBMS2, "time_to_live": 0}
ORDER = {"direction": "out", "service": "urn:orders", "action": "New"}
HINT = {**ORDER, "action": "Hint", "semantics": "BestEffort", "ack": "never"}
ANSWER = {"direction": "in", "service": "urn:orders", "action": "Confirm"}


def listed(*channels: Any, **terms: Any) -> dict[str, Any]:
    return document({**AGREED, **terms, "channels": list(channels)})


def refusals(*channels: Any, **terms: Any) -> list[str]:
    return problems({**AGREED, **terms, "channels": list(channels)})


def said(document: Any) -> list[str]:
    return [str(one) for one in apply(document).changes if one.what != "unchanged"]


def test_channels_are_set_up_by_a_document_and_exported_as_they_are() -> None:
    ordered = {**ORDER, "retries": 7, "retry_interval": 5, "address": "http://x.example/orders"}

    assert said(listed(ordered, HINT, ANSWER)) == [
        "partner acme: added",
        "agreement cpa-1 with acme: added",
        "channel out urn:orders New of cpa-1: added",
        "channel out urn:orders Hint of cpa-1: added",
        "channel in urn:orders Confirm of cpa-1: added",
    ]

    (partner,) = exported()["partners"]
    (agreement,) = partner["agreements"]
    in_order = [ANSWER, HINT, ordered]
    assert agreement["channels"] == in_order
    assert said(exported()) == []
    order = Channel.objects.get(action="New")
    assert (order.agreed.retries, order.agreed.retry_interval) == (7, 5)
    assert (order.agreed.their_role, order.agreement.retries) == ("Seller", 2)


def test_a_list_is_the_whole_list_and_none_changes_nothing() -> None:
    apply(listed({**ORDER, "retries": 1}, HINT))

    assert said(document({"tpa_id": "cpa-1", "window": 5})) == [
        "agreement cpa-1 with acme: updated (window)"
    ]
    assert Channel.objects.count() == 2
    assert said(listed({**ORDER, "ordered": True}, ANSWER, window=5)) == [
        "channel out urn:orders Hint of cpa-1: removed",
        "channel out urn:orders New of cpa-1: updated (retries, ordered)",
        "channel in urn:orders Confirm of cpa-1: added",
    ]
    assert Channel.objects.get(action="New").retries is None
    apply(listed(window=5))
    assert not Channel.objects.exists()


def test_changes_of_channels_are_recorded() -> None:
    for channels in ([ORDER], [{**ORDER, "retries": 1}], []):
        configure.apply(listed(*channels), Actor("ann", "because"))

    changes = SettingChange.objects.filter(kind="Channel").order_by("pk")
    name = "out urn:orders New of cpa-1 of acme"
    assert [(one.what, one.name) for one in changes] == [
        ("added", name),
        ("changed", name),
        ("removed", name),
    ]
    assert (changes[1].before, changes[1].after) == ({"retries": None}, {"retries": 1})


def test_channels_cost_no_statement_each() -> None:
    def statements(count: int, name: str) -> int:
        channels = [{**ORDER, "action": f"Act{n}"} for n in range(count)]
        parties = {"tpa_id": name, "their_party": name}
        with CaptureQueriesContext(connection) as captured:
            apply(document({**AGREED, **parties, "channels": channels}, name=name))
        return len(captured)

    assert statements(30, "many") <= statements(1, "one")


@pytest.mark.parametrize(
    ("channel", "problem"),
    [
        ("x", "channels[0]: must be an object."),
        ({**ORDER, "retry": 1}, "channels[0].retry: is not known. Did you mean retries?"),
        ({**ORDER, "retries": "1"}, "channels[0].retries: must be a whole number."),
        ({**ORDER, "retries": 10_001}, "channels[0].retries: Must be 10000 or less."),
        ({**ORDER, "action": ""}, "channels[0].action: is missing."),
        ({**ORDER, "direction": "up"}, "channels[0].direction: Value 'up' is not a valid"),
        ({**ORDER, "service": "Orders"}, "channels[0].service: service_interface 'Orders': agree"),
        ({**ORDER, "address": "nowhere"}, "channels[0].address: 'nowhere' is not a URI"),
        ({**ORDER, "ack": "never"}, "channels[0].ack: never needs semantics BestEffort."),
        ({**ORDER, "signed": True}, "channels[0].signed: Needs the certificate of the partner."),
        ({**ORDER, "persist_duration": 60}, "channels[0].persist_duration: Must be longer than"),
        ({**ORDER, "retries": 500}, "channels[0]: persist_duration: Must be longer than retries"),
        ({**ANSWER, "retries": 1}, "channels[0].retries: A channel of messages that the partner"),
        ({**ANSWER, "address": "http://x/"}, "channels[0].address: A channel of messages that"),
        ({**ORDER, "service": SERVICE}, "channels[0].action: The reserved Service has Acknowledg"),
    ],
)
def test_what_a_channel_cannot_have_is_refused_by_its_path(channel: Any, problem: str) -> None:
    refused = refusals(channel)
    assert [one for one in refused if one.startswith(problem)], refused
    assert not Partner.objects.exists()


def test_a_channel_is_listed_once() -> None:
    assert refusals(ORDER, {**ORDER, "retries": 1}) == ["channels[1]: is listed twice."]


def test_services_that_differ_by_type_are_channels_each() -> None:
    """One without a type of its own has the agreement's."""
    plain, none = {**ORDER, "service_type": "plain"}, {**ORDER, "service_type": ""}
    assert said(listed(ORDER, plain, none, service_type="usual"))[2:] == [
        "channel out urn:orders New of cpa-1: added",
        "channel out urn:orders (plain) New of cpa-1: added",
        "channel out urn:orders (any type) New of cpa-1: added",
    ]
    assert exported()["partners"][0]["agreements"][0]["channels"] == [none, plain, ORDER]
    assert said(exported()) == []
    assert said(listed(ORDER, plain, service_type="usual")) == [
        "channel out urn:orders (any type) New of cpa-1: removed"
    ]

    twice = ["channels[1]: is listed twice."]
    assert refusals(ORDER, {**ORDER, "service_type": "usual"}, service_type="usual") == twice
    assert refusals(plain, {**plain, "retries": 1}) == twice
    (problem,) = problems({"tpa_id": "cpa-1", "service_type": "plain"})
    assert problem.endswith("New: there would be two of this Service type.")


def test_an_agreement_of_the_draft_has_no_channels() -> None:
    draft = {"tpa_id": "tpa-1", "our_party": "1", "their_party": "2", "channels": [ORDER]}
    assert problems(draft) == ["channels[0]: An agreement of dialect trp has no channels."]


def test_what_the_partner_sends_may_be_acknowledged_otherwise_than_what_we_send() -> None:
    apply(listed({**ANSWER, "ack": "never"}, semantics="OnceAndOnlyOnce"))
    assert Channel.objects.get().agreed.ack == "never"


def test_a_signal_has_only_what_signals_have() -> None:
    signal = {"direction": "out", "service": SERVICE, "action": "MessageError"}
    apply(listed({**signal, "address": "http://errors.example/"}))
    for name in {*TERMS} - {*OF_SIGNAL}:
        value = 1 if AGREEMENT[name] is int else True if AGREEMENT[name] is bool else "x"
        refused = refusals({**signal, name: value})
        assert f"channels[0].{name}: A channel of MessageError has no {name}." in refused
    refused = refusals({**signal, "action": "Ping", "signed": True})
    assert refused == ["channels[0].signed: A channel of Ping has no signed."]
    refused = refusals({**signal, "direction": "in"})
    assert refused == ["channels[0].direction: Signals of the partner have no channel."]


def test_an_agreement_cannot_lose_what_a_channel_needs() -> None:
    certified = {"certificate": pem_of(new_key("them"))}
    apply(listed({**ORDER, "signed": True}, **certified))

    (problem,) = problems({"tpa_id": "cpa-1", "certificate": ""})

    assert problem.endswith("Channel out urn:orders New: Needs the certificate of the partner."), (
        problem
    )
    (unchanged,) = refusals({**ORDER, "signed": True}, certificate="")
    assert unchanged == "channels[0].signed: Needs the certificate of the partner."
    apply(listed(ORDER, certificate=""))
    assert not Channel.objects.get().agreed.signed


def test_an_agreement_is_another_version_with_each_change_of_its_channels() -> None:
    """What is cached of it is compared with its version."""
    versions = [version()] if Agreement.objects.exists() else []
    for channels in ([], [ORDER], [{**ORDER, "retries": 1}], []):
        apply(listed(*channels))
        versions.append(version())
        agreement = Agreement.objects.get()
        assert agreement.has_channels is bool(channels)

    # In one transaction xmin stays: the row is a new one nevertheless.
    assert len(set(versions)) == len(versions)


def version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT ctid::text FROM partners_agreement")
        (found,) = cursor.fetchone()
    return str(found)


def test_who_saves_an_old_copy_of_an_agreement_keeps_its_channels_in_force() -> None:
    apply(listed())
    old = Agreement.objects.get()
    apply(listed(ORDER))
    old.save()
    assert Agreement.objects.get().has_channels


def test_every_term_of_a_channel_is_one_of_the_agreement_with_its_limits() -> None:
    assert {*OF_INCOMING} <= {*TERMS}
    assert CHANNEL.keys() == {*ORDER, *TERMS, "address"}
    assert {*TERMS} <= AGREEMENT.keys()
    limits = {name: limit for name, limit in (BOUNDS | EBMS2_BOUNDS).items() if name in TERMS}
    apply(listed(ORDER))
    for name, (_, largest) in limits.items():
        channel = Channel.objects.get()
        setattr(channel, name, largest + 1)
        with pytest.raises(ValidationError) as refused:
            channel.full_clean()
        assert f"Must be {largest} or less." in refused.value.message_dict[name]
