"""What stands in the database after a test that commits."""

import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.test import TransactionTestCase
from django_celery_beat.models import PeriodicTask

from msh.models import AppliedDefault, SettingChange
from partners.models import Partner
from tests import flushing
from tests.sessions import meet

pytestmark = pytest.mark.django_db(transaction=True)


def flush() -> None:
    TransactionTestCase("__init__")._fixture_teardown()  # type: ignore[attr-defined]


def counts() -> list[int]:
    models = (ContentType, Permission, Group, PeriodicTask, AppliedDefault)
    return [model.objects.count() for model in models]


def test_rows_are_gone_and_what_the_migrations_made_stays() -> None:
    before = counts()
    permission = Permission.objects.order_by("pk").first()
    Partner.objects.create(name="acme")
    SettingChange.objects.create(what="added", before={}, after={})
    flush()
    assert Partner.objects.count() == SettingChange.objects.count() == 0
    assert counts() == before
    assert permission == Permission.objects.order_by("pk").first()


def test_many_rows_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "LARGE", 0)
    before = counts()
    Partner.objects.create(name="acme")
    flush()
    assert not Partner.objects.exists()
    assert counts() == before


def test_what_the_migrations_made_is_there_again() -> None:
    before = counts()
    Group.objects.get(name="Viewer").delete()
    PeriodicTask.objects.update(enabled=False)
    flush()
    assert counts() == before
    assert not PeriodicTask.objects.filter(enabled=False).exists()
    flush()
    assert counts() == before


def test_rows_that_another_session_has_yet_to_commit_are_gone() -> None:
    meet(lambda: Partner.objects.create(name="acme"), flush)
    assert not Partner.objects.exists()
