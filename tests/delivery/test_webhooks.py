"""Webhooks: events in the order of the feed, each until it is taken, signed."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from standardwebhooks.webhooks import Webhook as Verifier

from msh import roles
from msh.flows.operations.rotate_keys import rotate_keys
from msh.flows.operations.watch import watch
from msh.flows.sending import webhooks
from msh.models import Incident, Webhook
from msh.protocol.attempt import AttemptResult, outcome_of
from msh.store.sending import webhooks as store
from msh.transport import signature
from msh.transport.job import Job
from tests.admin.conftest import client_with_role
from tests.delivery.test_application import Office
from tests.delivery.test_signed import secret_in
from tests.flows.world import World, make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:9/events"
LONG_AGO = "2026-01-01T00:00Z"


def webhook(**values: Any) -> Webhook:
    made = Webhook(**{"name": "shop", "url": URL, **values})
    webhooks.begin(made)
    made.full_clean()
    made.save()
    return made


def acknowledged(world: World, *message_ids: str) -> None:
    for message_id in message_ids:
        world.submit(message_id=message_id)
        world.settle()


def posted(office: Office) -> list[Job]:
    office.poll()
    return list(office.transmitted.jobs)


def answer(office: Office, status: int) -> str:
    """The one POST under way ends like this; of which message it was."""
    (job,) = office.transmitted.jobs
    office.transmitted.jobs.clear()
    office.finish(job.key, AttemptResult(outcome_of(status), status, f"{status}"))
    office.record_ended()
    return str(json.loads(job.body)["message_id"])


def test_events_come_in_order_one_at_a_time_and_again_until_taken() -> None:
    world, office = make_world(), Office()
    acknowledged(world, "before")
    made = webhook()
    acknowledged(world, "a", "b")
    assert len(posted(office)) == 1
    assert len(posted(office)) == 1, "the next one waits for its answer"
    assert answer(office, 503) == "a"
    assert posted(office) == [], "it waits for its retry, and the later one behind it"
    Webhook.objects.update(due=LONG_AGO)
    posted(office)
    assert answer(office, 204) == "a"
    posted(office)
    assert answer(office, 200) == "b"
    assert posted(office) == []
    made.refresh_from_db()
    assert (made.tries, made.error, made.failing) == (0, "", None)


def test_each_webhook_gets_the_events_that_it_wants() -> None:
    one, other, office = make_world(), make_world(), Office()
    made = webhook(kinds=["acknowledged"])
    made.partners.set([other.there])
    nothing = webhook(name="failures", kinds=["failed"])
    acknowledged(one, "a")
    acknowledged(other, "b")
    posted(office)
    assert answer(office, 204) == "b"
    assert posted(office) == []
    nothing.refresh_from_db()
    made.refresh_from_db()
    assert nothing.position >= made.position, "what it does not want is passed over"


def test_post_is_signed_and_has_the_document_of_the_feed() -> None:
    made = webhook()
    made.change_signing("new")
    made.save()
    acknowledged(make_world(), "a")
    (job,) = posted(Office())
    document = Verifier(made.new_secret).verify(job.body, dict(job.headers))
    assert (document["kind"], document["message_id"]) == ("acknowledged", "a")
    assert document["event_id"] == dict(job.headers)["webhook-id"]
    assert document["position"] == job.key.position  # type: ignore[attr-defined]


def test_lost_answer_and_late_answer() -> None:
    """A worker that died has its event sent again; one that comes late changes nothing."""
    webhook()
    acknowledged(make_world(), "a", "b")
    slow, quick = Office(), Office()
    posted(slow)
    Webhook.objects.update(due=LONG_AGO)
    posted(quick)
    assert answer(quick, 204) == "a"
    before = Webhook.objects.get()
    assert answer(slow, 503) == "a"
    after = Webhook.objects.get()
    assert (after.position, after.tries) == (before.position, 0)


@pytest.mark.django_db(transaction=True)
def test_one_that_another_worker_has_is_neither_served_nor_waited_for() -> None:
    key = webhook().pk
    with transaction.atomic():
        assert store.lock_due(key) is not None

        def meanwhile() -> Webhook | None:
            with transaction.atomic():
                return store.lock_due(key)

        assert in_another_session(meanwhile) is None


def test_operators_are_called_for_one_that_does_not_take_events() -> None:
    world, office = make_world(), Office()
    webhook()
    acknowledged(world, "a")
    for _ in range(webhooks.CALL_AFTER):
        Webhook.objects.update(due=LONG_AGO)
        posted(office)
        answer(office, 500)
        watch()
    incident = Incident.objects.get(kind="webhook_failed")
    assert (incident.partner, incident.resolved_at) == (world.there, None)
    assert "webhook shop, 5 attempts failed, the last one: 500" in incident.detail
    Webhook.objects.update(due=LONG_AGO)
    posted(office)
    answer(office, 204)
    watch()
    incident.refresh_from_db()
    assert incident.resolved_at is not None


def test_one_that_cannot_be_served_stops_no_other() -> None:
    broken, _ = webhook(name="broken", signing_secrets="no token"), webhook(name="whole")
    acknowledged(make_world(), "a")
    (job,) = posted(Office())
    assert job.partner_id != -broken.pk
    broken.refresh_from_db()
    assert broken.tries == 1
    assert "SecretUnreadable" in broken.error or "credential" in broken.error


def test_one_that_is_off_goes_on_where_it_stopped() -> None:
    made, office = webhook(), Office()
    Webhook.objects.update(enabled=False)
    acknowledged(make_world(), "a")
    assert posted(office) == []
    Webhook.objects.update(enabled=True)
    assert len(posted(office)) == 1
    assert made.url == URL


def test_setup_adds_and_changes_it(tmp_path: Any) -> None:
    world, secret = make_world(), signature.new_secret()
    document = {
        "webhooks": [
            {
                "name": "shop",
                "url": URL,
                "kinds": ["failed"],
                "partners": [world.there.name],
                "signing_secrets": secret,
            }
        ]
    }
    file = tmp_path / "setup.json"
    file.write_text(json.dumps(document))
    call_command("setup", str(file))
    made = Webhook.objects.get()
    assert (made.kinds, list(made.partners.all())) == (["failed"], [world.there])
    assert made.signing() == (secret,)
    call_command("setup", str(file))
    assert Webhook.objects.get().signing_secrets == made.signing_secrets
    for wrong in ({"kinds": ["married"]}, {"signing_secrets": "hidden"}, {"partners": ["nobody"]}):
        file.write_text(json.dumps({"webhooks": [{"name": "shop", **wrong}]}))
        with pytest.raises(CommandError, match=r"webhooks\[0\]"):
            call_command("setup", str(file))
    assert rotate_keys().current >= 1


def test_console_adds_it_with_a_secret_that_is_shown_once() -> None:
    client = client_with_role("root", roles.ADMINISTRATOR)
    world = make_world()
    values: dict[str, Any] = {"name": "shop", "enabled": "on", "url": URL, "kinds": ["failed"]}
    values |= {"partners": [world.there.pk], "signing": "new", "reason": "agreed with the shop"}
    page = client.post("/admin/msh/webhook/add/", values, follow=True).content.decode()
    made = Webhook.objects.get()
    assert made.signing() == (secret_in(page),)
    assert (made.kinds, list(made.partners.all())) == (["failed"], [world.there])
    assert "whsec_" not in client.get(f"/admin/msh/webhook/{made.pk}/change/").content.decode()
    partner = client.get(f"/admin/partners/partner/{world.there.pk}/delete/").content.decode()
    assert "Webhook shop" in partner
