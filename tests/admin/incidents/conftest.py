"""An incident, and somebody who may work on it."""

import pytest
from django.test import Client

from msh.models import Incident
from tests.admin.conftest import client_of, suspended_world


@pytest.fixture
def keeper() -> Client:
    return client_of("kim", "view_incident", "resolve_incident", "assign_incident")


@pytest.fixture
def incident() -> Incident:
    suspended_world()
    return Incident.objects.get()
