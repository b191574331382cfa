"""Every row is dated by the database's clock."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.models import History

from .world import make_world

pytestmark = pytest.mark.django_db


def test_history_is_dated_now() -> None:
    world = make_world()
    began = timezone.now() - timedelta(minutes=1)
    world.submit()
    world.settle()

    times = list(History.objects.order_by("pk").values_list("at", flat=True))

    assert len(times) == 5
    assert all(began < at < timezone.now() + timedelta(minutes=1) for at in times)
