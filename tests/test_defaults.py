"""Roles and schedule come with a version; what administrators change stays."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django_celery_beat.models import PeriodicTask

from msh import roles
from msh.beat import schedule
from msh.beat.schedule import Every
from msh.celery import app
from msh.models import AppliedDefault

pytestmark = pytest.mark.django_db


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


def held(role: str) -> set[str]:
    rows = Group.objects.get(name=role).permissions.select_related("content_type")
    return {f"{row.content_type.app_label}.{row.codename}" for row in rows}


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_holds_what_is_written_for_it(role: str) -> None:
    assert held(role) == roles.ROLES[role]


def test_the_schedule_is_what_is_written() -> None:
    rows = PeriodicTask.objects.exclude(task__startswith="celery.")
    assert {row.name: row.task for row in rows} == {
        name: task for name, (task, _) in schedule.SCHEDULE.items()
    }
    app.loader.import_default_modules()
    assert {row.task for row in rows} <= app.tasks.keys()
    assert not rows.exclude(expire_seconds=None).exists()


def test_every_kind_of_work_is_polled_without_a_wake_up() -> None:
    """Seconds that work waits at most, whoever forgot to announce it."""
    intervals = {
        "sweep": 5,
        "notify_operators": 5,
        "watch": 10,
        "look_for_ends": 600,
        "collect_statistics": 30,
    }
    rows = PeriodicTask.objects.filter(interval__period="seconds", enabled=True)
    wanted = {f"msh.tasks.{task}": seconds for task, seconds in intervals.items()}
    entries = schedule.SCHEDULE.values()
    assert {task: when.seconds for task, when in entries if isinstance(when, Every)} == wanted
    assert dict(rows.values_list("task", "interval__every")) == wanted


def test_removed_permissions_stay_removed() -> None:
    operators = Group.objects.get(name="Operator")
    operators.permissions.remove(Permission.objects.get(codename="suspend_outboundlink"))
    Group.objects.get(name="Viewer").delete()
    PeriodicTask.objects.get(name="prune").delete()
    PeriodicTask.objects.filter(name="sweep: watch").update(enabled=False)

    migrate()

    assert held("Operator") == roles.OPERATOR - {"msh.suspend_outboundlink"}
    assert not Group.objects.filter(name="Viewer").exists()
    assert not PeriodicTask.objects.filter(name="prune").exists()
    assert not PeriodicTask.objects.get(name="sweep: watch").enabled


def test_permissions_of_a_later_version_are_granted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    later = {**roles.ROLES, "Viewer": roles.VIEWER | {"auth.view_user"}}
    monkeypatch.setattr(roles, "ROLES", later)
    entries = {**schedule.SCHEDULE, "sweep: again": ("msh.tasks.sweep", schedule.Every(7))}
    monkeypatch.setattr(schedule, "SCHEDULE", entries)

    migrate()

    assert held("Viewer") == roles.VIEWER | {"auth.view_user"}
    assert PeriodicTask.objects.get(name="sweep: again").interval.every == 7
    count = AppliedDefault.objects.count()
    migrate()
    assert AppliedDefault.objects.count() == count


def test_an_unknown_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "ROLES", {"Viewer": frozenset({"msh.paint_outboundlink"})})
    with pytest.raises(LookupError, match=r"msh\.paint_outboundlink"):
        roles.apply_roles()


def test_no_role_holds_a_permission_that_is_not_ours() -> None:
    labels = {name.partition(".")[0] for names in roles.ROLES.values() for name in names}
    assert labels <= {config.label for config in apps.get_app_configs()}
