"""Alert recipients, and real servers that take the calls."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.models import AlertRecipient, Channel
from msh.models import Incident
from tests.flows.world import World
from tests.peer import Peer
from tests.peer.mailbox import Mailbox

SECRET = "T0K3N-of-the-hook"


def recipient(name: str, channel: str = Channel.WEBHOOK, **values: Any) -> AlertRecipient:
    """`url`, `key`: its secrets; `partners`: only those."""
    url, key = values.pop("url", ""), values.pop("key", "")
    partners = values.pop("partners", ())
    made = AlertRecipient(name=name, channel=channel, **{"at_least": "info", **values})
    if url:
        made.post_to(url)
    if key:
        made.show(key)
    made.full_clean()
    made.save()
    made.partners.set(partners)
    return made


def bodies(hook: Peer) -> list[Any]:
    return [json.loads(one.body) for one in hook.received]


def partners_called(hook: Peer) -> list[list[str]]:
    """By our own webhook: the partners that each POST is about."""
    return [[one["partner"] for one in body["notices"]] for body in bodies(hook)]


def minutes_pass() -> None:
    """The next turn of each incident has come."""
    Incident.objects.filter(next_turn__isnull=False).update(
        next_turn=timezone.now() - timedelta(seconds=1)
    )


def name(world: World) -> str:
    return str(world.there.name)


@pytest.fixture
def hook() -> Iterator[Peer]:
    with Peer(path=f"/{SECRET}") as peer:
        yield peer


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with Mailbox(auth=False) as mailbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_TIMEOUT = 1
        yield mailbox
