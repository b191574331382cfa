"""Producers that share a process."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo.pairs import make_pairs
from demo.producer import Plan, produce
from demo.submitting import SHARING, share_out
from msh.models import OutboundMessage
from partners.models import Agreement, Partner

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("pairs", "processes"), [(1, 1), (2, 2), (64, 4), (200, 4)])
def test_a_few_processes_submit_for_all_pairs(pairs: int, processes: int) -> None:
    made = make_pairs(pairs)
    shares = share_out(made, SHARING)
    assert len(shares) == processes
    assert sorted(pair.name for _, share in shares for pair in share) == sorted(
        pair.name for pair in made
    )
    assert all(pair.sender == sender for sender, share in shares for pair in share)


def plans(folder: Path, files: list[str], longest_pause: float = 0.0) -> list[Plan]:
    made = []
    for name in ("pair-1", "pair-2"):
        partner = Partner.objects.create(name=name, uri=f"http://b.example/{name}/")
        Agreement.objects.create(
            partner=partner, tpa_id=f"tpa-{name}", our_party=f"a-{name}", their_party=f"b-{name}"
        )
        record = str(folder / f"{name}.record")
        made.append(Plan(name, f"tpa-{name}", record, files, 1, longest_pause))
    return made


def recorded(plan: Plan, name: str) -> list[Any]:
    return [json.loads(line)[name] for line in Path(plan.record).read_text().splitlines()]


def test_each_pair_is_submitted_in_its_order_and_recorded(tmp_path: Path) -> None:
    file = tmp_path / "order.xml"
    file.write_text("<Order/>")
    both = plans(tmp_path, [str(file)] * 3, longest_pause=0.01)
    produce(both, threading.Event())
    for plan in both:
        assert recorded(plan, "order") == [0, 1, 2]
        rows = OutboundMessage.objects.filter(agreement__tpa_id=plan.tpa_id).order_by("id")
        assert [row.message_id for row in rows] == recorded(plan, "message_id")


def test_messages_are_dealt_out_among_conversations(tmp_path: Path) -> None:
    file = tmp_path / "order.xml"
    file.write_text("<Order/>")
    plan = replace(plans(tmp_path, [str(file)] * 8)[0], conversations=2)
    produce([plan], threading.Event())
    rows = OutboundMessage.objects.filter(agreement__tpa_id=plan.tpa_id).order_by("id")
    assert [row.conversation_id for row in rows] == recorded(plan, "conversation")
    assert set(recorded(plan, "conversation")) == {"pair-1-0", "pair-1-1"}


def test_a_producer_that_is_to_end_has_recorded_all_that_it_submitted(tmp_path: Path) -> None:
    file = tmp_path / "order.xml"
    file.write_text("<Order/>")
    ending = threading.Event()
    both = plans(tmp_path, [str(file)] * 3, longest_pause=60.0)
    threading.Timer(0.2, ending.set).start()
    produce(both, ending)
    assert [recorded(plan, "order") for plan in both] == [[0], [0]]
    assert OutboundMessage.objects.count() == 2
