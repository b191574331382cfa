"""An incident, suspended partners, and who may work on them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from msh.models import Incident, OutboundLink
from tests.admin.conftest import client_of, suspended_world
from tests.admin.incidents.bulk import RIGHTS
from tests.flows.world import World


@pytest.fixture
def keeper() -> Client:
    return client_of("kim", "view_incident", "resolve_incident", "assign_incident")


@pytest.fixture
def incident() -> Incident:
    suspended_world()
    return Incident.objects.get()


@pytest.fixture
def bulk_user() -> Client:
    return client_of("sue", *RIGHTS, "view_delivery", "decide_delivery")


@pytest.fixture
def suspended() -> list[World]:
    """Three partners suspended now; a fourth since yesterday."""
    worlds = [suspended_world() for _ in range(4)]
    yesterday = timezone.now() - timedelta(days=1)
    OutboundLink.objects.filter(pk=worlds[3].link.pk).update(suspended_since=yesterday)
    return worlds
