"""The same rule for the API and for commands."""

import getpass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from msh.flows.operations.guard import is_needed
from msh.models import ActRequest, History, OutboundMessage
from msh.protocol.four_eyes import Verb
from tests.admin.conftest import suspended_world
from tests.api.conftest import Tokens, token
from tests.flows.world import make_world

__all__ = ["token"]
pytestmark = pytest.mark.usefixtures("rule")
WHY = {"reason": "agreed", "verdict": "unknown"}
MAY = ("view_outboundmessage", "cancel_outboundlink")


def test_api_asks_and_says_so(token: Tokens) -> None:
    suspended_world(queued=0)
    message = OutboundMessage.objects.get()
    shop = token("operate", may=MAY)
    answer = shop.post(f"messages/{message.message_id}/cancel", WHY)
    row = ActRequest.objects.get()
    assert (answer.status, answer.json["request"]) == (202, row.pk)
    assert "a second person must confirm it" in answer.json["text"]
    assert (row.asked_by, OutboundMessage.objects.get().state) == (shop.name, "in_flight")


def test_api_goes_alone_where_it_may(token: Tokens, rule: Any) -> None:
    suspended_world(queued=0)
    path = f"messages/{OutboundMessage.objects.get().message_id}/cancel"
    alone = WHY | {"alone": "03:00"}
    assert token("operate", may=MAY).post(path, alone).status == 409
    rule.MSH_ACT_ALONE = True
    assert token("operate", may=MAY).post(path, alone).status == 409
    assert token("operate", may=(*MAY, "act_alone_actrequest")).post(path, alone).status == 200


def test_blank_is_no_reason_to_go_alone(token: Tokens, rule: Any) -> None:
    rule.MSH_ACT_ALONE = True
    world = suspended_world(queued=1)
    message = OutboundMessage.objects.get(state="in_flight")
    may = (*MAY, "act_alone_actrequest", "view_outboundlink", "bulk_bulkjob")
    shop = token("operate", may=may)
    for path, body in (
        (f"messages/{message.message_id}/cancel", WHY),
        (f"links/{world.link.pk}/cancel-queue", {"reason": "agreed"}),
    ):
        assert shop.post(path, {**body, "alone": " \t "}).status == 202
    assert not History.objects.filter(event="WentAheadAlone").exists()
    said = shop.post(f"messages/{message.message_id}/cancel", {**WHY, "alone": "  03:00 "})
    assert (said.status, ActRequest.objects.latest("pk").words) == (200, "03:00")


def test_a_command_asks_by_its_exit_status(rule: Any) -> None:
    world = make_world()
    world.submit()
    world.settle()
    reset = ("reset-sequence", world.there.name, "--reason", "agreed")
    with pytest.raises(CommandError, match="a second person must confirm it") as refused:
        call_command(*reset)
    assert refused.value.returncode == 3
    assert ActRequest.objects.get().asked_by == getpass.getuser()
    rule.MSH_ACT_ALONE = True
    call_command(*reset, "--alone", "nobody answers")
    assert world.link.next_number == 1
    assert History.objects.filter(event="WentAheadAlone").exists()


def test_a_command_asks_whatever_its_user_is_called(
    rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user of the console who is called so has none of the roles."""
    rule.MSH_SECOND_PERSON = ["reset:Operator"]
    User.objects.create_user("vera")
    monkeypatch.setattr(getpass, "getuser", lambda: "vera")
    world = make_world()
    with pytest.raises(CommandError, match="a second person must confirm it"):
        call_command("reset-sequence", world.there.name, "--reason", "agreed")


def test_a_superuser_has_every_role(rule: Any) -> None:
    rule.MSH_SECOND_PERSON = ["reset:Operator"]
    User.objects.create_superuser("root")
    assert is_needed(Verb.RESET, "root")


@pytest.mark.parametrize("asks", [False, True])
def test_tasks_are_run_by_hand_unless_pruning_needs_a_second_person(
    rule: Any, *, asks: bool
) -> None:
    rule.MSH_SECOND_PERSON = ["prune"] if asks else ["reset"]
    administrator = Client()
    administrator.force_login(
        User.objects.create_superuser("root"),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    address = reverse("admin:django_celery_beat_periodictask_changelist")
    page = administrator.get(address).content.decode()
    assert ("run_tasks" in page) is not asks


def test_the_other_commands_ask_too() -> None:
    world = suspended_world(queued=1)
    message = OutboundMessage.objects.get(state="in_flight").message_id
    why = ("--reason", "agreed")
    for command in (
        ("cancel", message, "--verdict", "unknown", *why),
        ("expect", world.there.name, "--number", "9", *why),
        ("cancel-queue", world.there.name, *why),
        ("prune",),
    ):
        with pytest.raises(CommandError, match="a second person must confirm it"):
            call_command(*command)
    acts = ActRequest.objects.order_by("pk").values_list("act", flat=True)
    assert list(acts) == ["cancel", "expect", "cancel_queue", "prune"]
    call_command("prune", "--dry-run")
