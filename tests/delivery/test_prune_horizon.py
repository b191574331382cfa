"""Retention of ids: agreements that need them longer than the settings say."""

from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from msh.flows.operations.prune import prunable, prune_all
from msh.models import InboundMessage, InboundPayload, Incident, OutboundPayload
from partners.models import Agreement
from partners.setup import SetupRefused, apply
from tests.delivery.desk import Desk, receive
from tests.delivery.pruning import DAY, age, old_world
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

LONG = {"timeout": DAY, "retries": 100, "retry_interval": DAY}
"""1,020 days for which ids are kept at least, with the default of the TransientErrors."""


@pytest.mark.requirement("002-13")
def test_agreement_with_a_long_horizon_keeps_its_ids_and_nothing_else(settings: Settings) -> None:
    world = old_world()
    other = make_world()
    receive(other, 4)
    Desk().settle()
    age()
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    counted = prunable()

    removed = prune_all()

    assert removed == counted
    of_world = InboundMessage.objects.filter(link__partner=world.here)
    assert of_world.count() == 4
    assert InboundMessage.objects.filter(link__partner=other.here).count() == 2
    assert not InboundPayload.objects.exists()
    assert not OutboundPayload.objects.exists()
    assert removed["outbound messages"] == 6
    of_world.update(delivered_at=timezone.now() - timedelta(days=1021))
    assert prune_all()["inbound messages"] == 2


def test_agreement_incident_is_opened_once_and_resolved(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    world = old_world()
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    for _ in range(2):
        call_command("prune")
    assert "tpa-1" in capsys.readouterr().err
    (incident,) = Incident.objects.all()
    assert (incident.partner, incident.kind) == (world.here, "retention_too_short")
    for word in ("MSH_KEEP_MESSAGES", "30 days", "tpa-1", "1020"):
        assert word in incident.detail
    settings.MSH_KEEP_MESSAGES = 1020
    prune_all()
    incident.refresh_from_db()
    assert incident.resolved_at is not None


def test_start_says_that_an_agreement_keeps_ids_longer(world: World, settings: Settings) -> None:
    settings.MSH_KEEP_MESSAGES = 30
    Agreement.objects.filter(partner=world.here).update(**LONG)
    (found,) = run_checks(tags=["database"], databases=["default"])
    assert found.id == "msh.W002"
    assert "tpa-1" in str(found)
    assert "MSH_KEEP_MESSAGES" in str(found)


def test_agreement_with_a_horizon_beyond_retention_is_refused(
    settings: Settings,
) -> None:
    agreement = make_world().agreement
    agreement.full_clean()
    for name, value in LONG.items():
        setattr(agreement, name, value)
    with pytest.raises(ValidationError, match="set MSH_KEEP_MESSAGES to 1020 or more"):
        agreement.full_clean()
    settings.MSH_KEEP_MESSAGES = 1020
    agreement.full_clean()


def test_setup_refuses_such_an_agreement_with_the_same_words(world: World) -> None:
    agreement = {"tpa_id": "tpa-1", "our_party": "111", "their_party": "222", **LONG}
    partner = {"name": world.there.name, "uri": world.there.uri, "agreements": [agreement]}
    with pytest.raises(SetupRefused, match="set MSH_KEEP_MESSAGES to 1020 or more"):
        apply({"partners": [partner]})
    assert Agreement.objects.get(partner=world.there).retries == 3
