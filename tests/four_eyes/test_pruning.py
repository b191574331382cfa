"""A prune by hand that a second person confirms, and that a worker does."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import prune
from msh.four_eyes.flows import requests
from msh.models import ActRequest, PruneRun
from msh.store.history import Actor
from tests.four_eyes.conftest import ANN, SUE, ask, user

pytestmark = pytest.mark.usefixtures("rule")


def test_pruning_by_hand_is_done_by_a_worker() -> None:
    row = ask(lambda: prune.prune_by_hand(ANN, clock_is_right=True))
    user("root", {"msh.confirm_actrequest", "django_celery_beat.change_periodictask"})
    with pytest.raises(NotPossible, match="do not have the permissions"):
        requests.confirm(row.pk, SUE)
    requests.run_prune()
    assert not PruneRun.objects.exists()
    requests.confirm(row.pk, Actor("root", "seen it"))
    requests.run_prune()
    requests.run_prune()
    row.refresh_from_db()
    assert row.outcome == "0 rows removed."
    prune.prune_all()  # by the schedule: nobody is asked


def outcome_of(row: ActRequest) -> tuple[bool, str]:
    """Whether it has ended, and what was done."""
    row.refresh_from_db()
    return row.ended_at is not None, row.outcome


def test_a_prune_whose_worker_died_says_so_and_can_be_asked_for_again() -> None:
    user("root", {"msh.confirm_actrequest", "django_celery_beat.change_periodictask"})
    root = Actor("root", "seen it")
    row = ask(lambda: prune.prune_by_hand(ANN, clock_is_right=True))
    requests.confirm(row.pk, root)
    with prune.alone():  # the lease of a run that is in progress
        ActRequest.objects.update(started_at=timezone.now() - 2 * prune.LEASE)
        requests.run_prune()
        assert outcome_of(row) == (False, "A worker prunes in the background.")
    ActRequest.objects.update(started_at=timezone.now() - prune.LEASE / 2)
    requests.run_prune()
    assert outcome_of(row)[0] is False, "it may be between its claim and its lease"
    PruneRun.objects.update(holder=uuid4(), leased_until=timezone.now() - timedelta(seconds=1))
    ActRequest.objects.update(started_at=timezone.now() - 2 * prune.LEASE)

    requests.run_prune()

    has_ended, outcome = outcome_of(row)
    assert has_ended
    assert outcome.startswith("Interrupted: the worker that pruned stopped")
    again = ask(lambda: prune.prune_by_hand(ANN, clock_is_right=True))
    assert again.pk != row.pk
    requests.confirm(again.pk, root)
    requests.run_prune()
    assert outcome_of(again) == (True, "0 rows removed.")
