"""What is POSTed to applications is signed, by a secret that is shown once."""

import re
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook

from msh import roles
from msh.flows.operations.rotate_keys import rotate_keys
from msh.flows.sending.submit import submit
from msh.models import Consumer, ConsumerKind, SettingChange
from msh.protocol.message import Payload
from msh.transport import signature
from msh.transport.job import Job
from tests.admin.conftest import client_with_role
from tests.delivery.desk import Desk, consumer
from tests.delivery.test_application import Office, told_twice
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def secret_in(text: str) -> str:
    (found,) = set(re.findall(r"whsec_[\w+/=]+", text))
    return str(found)


def posted() -> Job:
    """What a consumer over HTTP gets."""
    world = make_world()
    payload = Payload(b'{"order": 1}', "application/json")
    submit(world.agreement, "Orders", "New", [payload], message_id="order.1@shop")
    world.settle()
    desk = Desk()
    desk.poll()
    return desk.answer(204)


def verify(secret: str, job: Job) -> None:
    """Raises WebhookVerificationError."""
    Webhook(secret).verify(job.body, dict(job.headers))


def test_message_to_a_consumer_is_signed_by_the_old_and_the_new_secret(
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer(ConsumerKind.HTTP)
    assert "webhook-signature" not in dict(posted().headers)
    call_command("consumer", "orders", "--signing", "new")
    old = secret_in(capsys.readouterr().out)
    call_command("consumer", "orders", "--signing", "new", "--json")
    new = secret_in(capsys.readouterr().out)

    both = posted()
    for secret in (old, new):
        verify(secret, both)
    headers = dict(both.headers)
    assert headers["webhook-id"] == headers["Idempotency-Key"].replace(".", "%2E")
    assert new not in Consumer.objects.get().signing_secrets

    call_command("consumer", "orders", "--signing", "end-old")
    alone = posted()
    verify(new, alone)
    with pytest.raises(Exception, match="No matching signature"):
        verify(old, alone)
    call_command("consumer", "orders", "--signing", "stop")
    assert "webhook-signature" not in dict(posted().headers)
    assert "whsec_" not in capsys.readouterr().out


def test_signed_request_that_waited_is_not_begun_when_it_is_stale() -> None:
    """Receivers refuse what is five minutes old; a lease may be a day."""
    made = consumer(ConsumerKind.HTTP, lease=86_400)
    unsigned = posted()
    made.change_signing("new")
    made.save()
    signed = posted()
    assert unsigned.not_after - signed.not_after > 1000


def test_event_to_the_handler_is_signed(settings: Settings) -> None:
    settings.MSH_FROM_PARTY_HANDLER = "http://127.0.0.1:9/events"
    settings.MSH_FROM_PARTY_SIGNING = [signature.new_secret(), signature.new_secret()]
    told_twice(make_world())
    office = Office()
    office.poll()
    (job,) = office.transmitted.jobs
    for secret in settings.MSH_FROM_PARTY_SIGNING:
        verify(secret, job)
    assert dict(job.headers)["webhook-id"] == dict(job.headers)["Idempotency-Key"]


def test_console_shows_a_new_secret_once() -> None:
    made = consumer(ConsumerKind.HTTP)
    client = client_with_role("root", roles.ADMINISTRATOR)
    address = f"/admin/msh/consumer/{made.pk}/change/"
    form = client.get(address).context["adminform"].form
    values: dict[str, Any] = {
        name: value for name in form.fields if (value := form.initial.get(name)) is not None
    }
    assert "Now: not signed." in client.get(address).content.decode()

    asked = values | {"reason": "agreed with the shop", "signing": "new"}
    shown = client.post(address, asked, follow=True).content.decode()

    verify(secret_in(shown), posted())
    again = client.get(address).content.decode()
    assert "Now: signed by one secret." in again
    assert "whsec_" not in again
    change = SettingChange.objects.get(kind="Consumer")
    assert change.after["signing_secrets"] == "(not shown)"


def test_secret_is_rotated_with_the_keys_of_encryption(settings: Settings) -> None:
    made = consumer(ConsumerKind.HTTP)
    made.change_signing("new")
    made.save()
    before = made.signing_secrets
    new = "gGNcZHBHmBXMrOqKqGQ3bxe0rAhnH6ovT1iVsCVqIoE="
    settings.MSH_FERNET_KEYS = [new, *settings.MSH_FERNET_KEYS]
    assert rotate_keys().rotated == 1
    made.refresh_from_db()
    assert made.signing_secrets != before
    assert made.signing() == (made.new_secret,)
