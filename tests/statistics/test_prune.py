"""Retention removes no message before it is counted, and no figure with a message."""

import pytest
from django.core.management import call_command

from msh.flows.operations.prune import prunable, prune_all
from msh.models import Attempt, InboundMessage, OutboundMessage
from msh.statistics.models import StatisticsProgress
from msh.statistics.store.collect import collect
from tests.delivery.pruning import old_world

from .happenings import collect_all, counted, settle

pytestmark = pytest.mark.django_db
RAW = (Attempt, InboundMessage, OutboundMessage)
KINDS = ("inbound payloads", "outbound payloads", "inbound messages", "outbound messages")


def raw() -> list[int]:
    return [table.objects.count() for table in RAW]


def test_what_is_not_counted_is_not_removed() -> None:
    old_world()
    collect()
    before = raw()
    prune_all()
    assert raw() == before
    settle()
    prune_all()
    assert all(now < then for now, then in zip(raw(), before, strict=True))


def test_figures_stay_when_their_messages_go() -> None:
    old_world()
    collect_all()
    figures = counted()
    assert sum(counts["acknowledged"] for counts in figures.values()) > 0
    before = raw()
    prune_all()
    collect_all()
    assert (counted(), raw() != before) == (figures, True)


def test_where_nobody_counts_nothing_is_kept_for_it() -> None:
    old_world()
    before = raw()
    prune_all()
    assert raw() != before
    assert not StatisticsProgress.objects.exists()


def test_dry_run_says_what_the_run_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Prune removed 0 payloads of 2 that it had said: statistics had begun a moment before."""
    old_world()
    collect()
    said = prunable()
    assert {kind: said[kind] for kind in KINDS} == dict.fromkeys(KINDS, 0)
    assert prune_all() == said
    call_command("prune", "--dry-run")
    assert "statistics" in capsys.readouterr().err

    settle()
    said = prunable()
    assert 0 not in {said[kind] for kind in KINDS}
    assert prune_all() == said
    call_command("prune", "--dry-run")
    assert "statistics" not in capsys.readouterr().err
