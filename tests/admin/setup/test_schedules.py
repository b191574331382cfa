"""Beat's own pages: they open, they save, and GET changes nothing."""

import pytest
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from tests.admin.conftest import client_of

pytestmark = pytest.mark.django_db

LIST = reverse("admin:django_celery_beat_periodictask_changelist")


def sweep_entry() -> PeriodicTask:
    return PeriodicTask.objects.get(name="sweep")


@pytest.mark.parametrize(
    "name",
    ["periodictask", "intervalschedule", "crontabschedule", "solarschedule", "clockedschedule"],
)
def test_lists_and_forms_open(administrator: Client, name: str) -> None:
    for page in ("changelist", "add"):
        where = reverse(f"admin:django_celery_beat_{name}_{page}")
        assert administrator.get(where).status_code == 200


def test_a_sweep_is_shown_with_its_task(administrator: Client) -> None:
    CrontabSchedule.objects.create()
    where = reverse("admin:django_celery_beat_periodictask_change", args=[sweep_entry().pk])

    page = administrator.get(where).content.decode()

    assert 'value="msh.tasks.sweep"' in page


def test_what_is_not_so_does_not_look_like_a_failure(administrator: Client) -> None:
    """F30: a red cross for "One-off Task: no"."""
    page = administrator.get(LIST).content.decode()
    assert "close_small" in page
    assert "bg-red-100 text-red-700" not in page


def test_an_interval_is_saved(administrator: Client) -> None:
    interval = IntervalSchedule.objects.get(every=10)
    where = reverse("admin:django_celery_beat_intervalschedule_change", args=[interval.pk])

    assert administrator.post(where, {"every": "2", "period": "seconds"}).status_code == 302
    interval.refresh_from_db()
    assert interval.every == 2


@pytest.mark.parametrize("action", ["disable_tasks", "toggle_tasks", "run_tasks"])
def test_viewer_cannot_disable_tasks(action: str) -> None:
    client = client_of("vera", "view_periodictask")
    fields = {"action": action, "_selected_action": [sweep_entry().pk], "index": "0"}

    page = client.get(LIST).content.decode()
    client.post(LIST, fields)

    assert action not in page
    assert sweep_entry().enabled is True


def test_task_can_be_disabled_with_permission() -> None:
    client = client_of("carl", "view_periodictask", "change_periodictask")

    client.post(
        LIST, {"action": "disable_tasks", "_selected_action": [sweep_entry().pk], "index": "0"}
    )

    assert sweep_entry().enabled is False
