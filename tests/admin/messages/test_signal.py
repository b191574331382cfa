"""The page of Acknowledgements and Errors."""

import pytest
from django.test import Client

from msh.models import Signal
from tests.admin.conftest import url
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_signals_are_filtered_by_pending(administrator: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    world.submit()
    (job,) = world.poll()
    world.hand_over(job)

    response = administrator.get(url(Signal, "changelist"), {"is": "pending"})

    assert [signal.pending for signal in response.context["cl"].result_list] == [1]
    assert Signal.objects.filter(link__partner=world.here).count() == 2
