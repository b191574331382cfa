"""The page of Acknowledgements and Errors."""

import pytest
from django.test import Client

from msh.flows.operations import refusals
from msh.models import History, InboundLink, Signal
from msh.store.history import Actor
from tests.admin.conftest import address, messages_of, url, use
from tests.endpoint.ebms2 import kept_refusal
from tests.flows.world import World

pytestmark = pytest.mark.django_db


def test_signals_are_filtered_by_pending(world: World, administrator: Client) -> None:
    world.submit()
    world.settle()
    _, job = world.start()
    world.hand_over(job)

    response = administrator.get(url(Signal, "changelist"), {"is": "pending"})

    assert [signal.pending for signal in response.context["cl"].result_list] == [1]
    assert Signal.objects.filter(link__partner=world.here).count() == 2


def test_refusals_that_are_kept_are_found(world: World, viewer: Client) -> None:
    world.submit()
    world.settle()
    refusal = kept_refusal()

    found = viewer.get(url(Signal, "changelist"), {"is": "refusal"}).context["cl"].result_list
    page = viewer.get(url(InboundLink, "change", refusal.link_id))

    assert list(found) == [refusal]
    (table,) = [one for one in page.context["tables"] if one.title.startswith("Refused messages")]
    (row,) = table.rows
    assert url(Signal, "change", refusal.pk) in str(row[0])
    calm = viewer.get(url(InboundLink, "change", world.here.inbound_link.pk))
    assert not [one for one in calm.context["tables"] if one.title.startswith("Refused")]


def test_refusal_is_taken_back_in_its_dialog(supervisor: Client) -> None:
    refusal = kept_refusal()
    page = supervisor.get(url(Signal, "change", refusal.pk))
    assert [offer.action.name for offer in page.context["offers"]] == ["take_back_refusal"]
    assert "take back the refusal, and ask the partner to send the message again" in (
        page.content.decode()
    )
    dialog = supervisor.get(address("take_back_refusal", refusal)).content.decode()
    assert "clinic" in dialog
    assert refusal.description in dialog

    said = messages_of(use(supervisor, "take_back_refusal", refusal, "our clock was wrong"))

    refusal.refresh_from_db()
    assert refusal.content_digest is None
    assert "The next copy of the message is judged anew." in said
    entry = History.objects.of_message("late@clinic").get(event="RefusalTakenBack")
    assert entry.actor == "sue"
    assert "our clock was wrong" in entry.detail
    history = supervisor.get(url(History, "changelist"), {"q": "late@clinic"}).content.decode()
    assert "Its refusal was taken back" in history
    after = supervisor.get(url(Signal, "change", refusal.pk))
    assert after.context["offers"] == []
    assert "take back" not in after.content.decode()


def test_refusal_is_taken_back_once(supervisor: Client) -> None:
    refusal = kept_refusal()
    where = address("take_back_refusal", refusal)
    opened = supervisor.get(where).context["form"]
    hidden = {field.name: field.value() or "" for field in opened.hidden_fields()}
    refusals.take_back(refusal.link.partner, refusal.ref_to_message_id, Actor("ann", "first"))

    supervisor.post(where, {**hidden, "reason": "second"})

    assert History.objects.filter(event="RefusalTakenBack").count() == 1
    assert "no refusal of this message is kept" in supervisor.get(where).content.decode()


def test_who_may_not_take_back_a_refusal_learns_who_may(viewer: Client, operator: Client) -> None:
    refusal = kept_refusal()
    for client in (viewer, operator):
        page = client.get(url(Signal, "change", refusal.pk))
        assert page.context["offers"] == []
        assert "Supervisor" in page.content.decode()


def test_acknowledgement_has_no_refusal(world: World, supervisor: Client) -> None:
    world.submit()
    world.settle()
    (ack,) = Signal.objects.filter(link__partner=world.here)
    page = supervisor.get(url(Signal, "change", ack.pk))
    assert page.context["offers"] == []
    assert "take back" not in page.content.decode()
