"""The loopback partner: an MSH that is tried without another one."""

import json

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from msh import roles
from msh.flows.operations import loopback
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage, OutboundMessage, SettingChange
from msh.store.receiving.senders import find_sender
from partners.models import Agreement, Credential, Partner
from tests.admin.conftest import client_with_role

from .world import World

pytestmark = pytest.mark.django_db


def exchange() -> World:
    """One message is sent to it; each POST comes from who its Authorization says."""
    out, back = (Partner.objects.get(name=name) for name in (loopback.OUT, loopback.BACK))
    world = World(out, back, Agreement.objects.get(partner=out))
    world.submit(message_id="tried")
    while jobs := world.poll():
        for job in jobs:
            sender = find_sender(job.authorization)
            assert sender is not None
            came = Incoming(job.content_type, job.body)
            answer = receive.receive_fast_path(sender, came) or receive.receive(sender, came)
            assert answer.status == 204
            world.end(job)
    return world


def test_what_is_sent_is_acknowledged_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("loopback", "--address", "http://127.0.0.1:8000/ebxml/")
    assert "--partner loopback --tpa loopback" in capsys.readouterr().out

    world = exchange()

    assert OutboundMessage.objects.get().state == "acknowledged"
    assert world.received() == ["tried"]
    assert InboundMessage.objects.get().link.partner.name == loopback.BACK
    assert "test" in world.there.display_name
    assert world.here.undelivered_limit == loopback.MOST


def test_command_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("loopback")
    capsys.readouterr()
    call_command("loopback", "--json")
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert {one["what"] for one in changes} == {"unchanged"}
    assert Credential.objects.count() == 2
    exchange()
    call_command("loopback", "--address", "http://127.0.0.1:9/ebxml/")
    assert Partner.objects.get(name=loopback.OUT).address == "http://127.0.0.1:9/ebxml/"


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match="address"):
        call_command("loopback", "--address", "nowhere")
    assert not Partner.objects.exists()


def test_console_offers_it_to_who_may_add_partners() -> None:
    viewer = client_with_role("ann", roles.VIEWER)
    address = "/admin/partners/agreement/loopback/"
    assert address not in viewer.get("/admin/").content.decode()
    assert viewer.post(address).status_code == 403
    assert not Partner.objects.exists()

    client: Client = client_with_role("root", roles.ADMINISTRATOR)
    assert address in client.get("/admin/").content.decode()
    assert client.get(address).status_code == 405
    page = client.post(address, follow=True).content.decode()
    assert "partner loopback: added" in page
    assert "Send a test message" in page
    assert SettingChange.objects.filter(actor="root", kind="Partner").count() == 2
    exchange()
