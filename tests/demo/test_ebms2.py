"""The demo in ebMS 2.0: what is seen, judged, set up, and resumed."""

import argparse
import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.utils import timezone

from demo.checker import STUCK_AFTER, overlap, silent_suspend, stuck
from demo.crew import REASON, Operator
from demo.evidence import Open, Suspension, read_database, read_open
from demo.faults import Decision, Fault
from demo.keys import Keys
from demo.machines import DemoFailed, Machine
from demo.options import Options, add_arguments, options_of
from demo.pairs import CONVERSATIONS, WINDOW, Dialect, make_pairs, make_tokens, setup_of
from demo.sighting import ACKNOWLEDGEMENT, ERROR, NORMAL, UNREADABLE, sight
from demo.watch import glance
from msh.models import Flight, History, Incident, OutboundLink, OutboundMessage
from partners.models import Agreement
from partners.setup import apply
from tests.demo.link import Rows, link, runs, until
from tests.demo.test_checker import CLEAN, delivery, exchanged, found
from tests.demo.test_evidence import agreement, queued
from tests.peer.ebms2 import acknowledgment, message, message_error

ENDS = {"from_party": "a-pair-1", "to_party": "b-pair-1"}
BACK = {"from_party": "b-pair-1", "to_party": "a-pair-1"}
LANE = "a-pair-1 > b-pair-1"


def test_messages_and_signals_are_seen_on_the_lane_of_the_message() -> None:
    out = message(**ENDS)
    seen = sight(out.body)
    assert (seen.kind, seen.lane, seen.message_id) == (NORMAL, LANE, out.message_id)
    for kind, signal in (
        (ACKNOWLEDGEMENT, acknowledgment(out.message_id, **BACK)),
        (ERROR, message_error(out.message_id, **BACK)),
    ):
        seen = sight(signal.body)
        assert (seen.kind, seen.lane, seen.message_id) == (kind, LANE, signal.message_id)
        assert seen.ref_to_message_id == out.message_id


@pytest.mark.parametrize(
    "body",
    [
        b"<Envelope xmlns='x'><MessageHeader/></Envelope>",
        b"<s:Envelope xmlns:s='x'><s:Body></s:Envelope>",
        b"<s:Envelope xmlns:s='x'>",
    ],
)
def test_envelope_that_cannot_be_read(body: bytes) -> None:
    assert sight(body).kind == UNREADABLE


def test_action_of_an_application_is_no_signal() -> None:
    assert sight(message(action="Acknowledgment").body).kind == NORMAL


@runs
async def test_ack_in_an_answer_is_judged_and_leaves_with_the_answer() -> None:
    stored, missing = Rows("m1"), Rows()
    lost = Decision(Fault.DROP_RESPONSE)
    for rows, decision, copies in ((stored, Decision(Fault.PASS), 1), (missing, lost, 0)):
        async with link(decision, target_rows=rows) as between:
            between.receiver.answer = acknowledgment("m1", **BACK).body
            answered = await between.post(message(message_id="m1", **ENDS).body)
            assert answered == (200 if copies else None)
            (ack,) = [line for line in between.lines if line["kind"] == ACKNOWLEDGEMENT][-1:]
            assert (ack["direction"], ack["pair"]) == ("b>a", LANE)
            assert ack["row_found"] is (rows is stored)
            assert len(ack["copies"]) == copies


@runs
async def test_answer_with_an_ack_that_cannot_be_judged_is_not_passed_on() -> None:
    async with link(target_rows=Rows("m1", failures=1)) as between:
        between.receiver.answer = acknowledgment("m1", **BACK).body
        body = message(message_id="m1", **ENDS).body
        assert [await between.post(body), await between.post(body)] == [502, 200]


def test_window_is_exceeded_by_one_more_but_not_by_what_was_held() -> None:
    several = [exchanged(number)[0] for number in range(1, 4)]
    assert [overlap(several, window) for window in (1, 2, 3)] == [2, 1, 0]
    assert overlap(several, 2, {"m1"}) == 0


def test_order_is_not_judged_without_order() -> None:
    swapped = replace(CLEAN, deliveries=(delivery(2), delivery(1), delivery(3)))
    assert found(swapped) == {"out_of_order": 1}
    assert found(replace(swapped, ordered=False)) == {}


def test_order_is_that_of_each_conversation() -> None:
    """The first two were delivered in another order, and are of two conversations."""
    talks = dict(zip(("m1", "m2", "m3"), ("a", "b", "b"), strict=True))
    dealt = [replace(one, conversation=talks[one.message_id]) for one in CLEAN.submissions]
    swapped = (delivery(2), delivery(1), delivery(3))
    assert found(replace(CLEAN, submissions=tuple(dealt), deliveries=swapped)) == {}
    behind = (delivery(1), delivery(3), delivery(2))
    wrong = replace(CLEAN, submissions=tuple(dealt), deliveries=behind)
    assert found(wrong) == {"out_of_order": 1}


@pytest.mark.django_db
def test_setup_of_the_demo_is_taken() -> None:
    pairs = make_pairs(2, dialect=Dialect.EBMS2)
    pairs[1] = replace(pairs[1], conversations=CONVERSATIONS)
    apply(setup_of("a", pairs, {"b": 9001}, make_tokens(pairs)))
    for link_ in OutboundLink.objects.all():
        (terms,) = link_.partner.agreements.all()
        assert (terms.dialect, terms.window, terms.on_failure) == ("ebms2", WINDOW, "hold")
        assert terms.ordered is (link_.partner.name == "pair-2")
    assert list(pairs[0].lanes) == [LANE]


@pytest.mark.django_db
def test_keys_of_the_run_sign_and_encrypt(tmp_path: Path) -> None:
    pairs = make_pairs(2, dialect=Dialect.EBMS2)
    keys = Keys(signed=True, encrypted=True)
    files = {name: keys.make(name, tmp_path / name) for name in "ab"}
    assert files["a"].keys() == {
        *("MSH_SIGNING_KEY", "MSH_SIGNING_CERTIFICATE", "MSH_DECRYPTION_KEY"),
    }
    apply(setup_of("a", pairs, {"b": 9001}, make_tokens(pairs), terms_with=keys.terms))
    theirs = Path(files["b"]["MSH_SIGNING_CERTIFICATE"]).read_text().strip()
    for terms in Agreement.objects.all():
        assert (terms.signed, terms.ack_signed, terms.encrypted) == (True, True, True)
        assert terms.certificate == theirs
    machine = Machine("a", tmp_path, 1, more=files["a"])
    assert machine.environment.items() >= files["a"].items()
    assert Keys().make("a", tmp_path) == Keys().terms("a") == {}


def test_only_ebms2_is_signed_or_encrypted() -> None:
    for word in ("--signed", "--encrypted"):
        with pytest.raises(ValueError, match="Only messages of ebMS"):
            options(word)
    chosen = options("--dialect", "ebms2", "--signed", "--encrypted")
    assert (chosen.signed, chosen.encrypted) == (True, True)


def test_routers_are_refused() -> None:
    with pytest.raises(ValueError, match="No routers for ebMS"):
        options("--dialect", "ebms2", "--routers", "1")


def options(*words: str) -> Options:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options_of(vars(parser.parse_args(words)))


def test_order_and_window_are_those_of_the_dialect() -> None:
    for words, expected in (
        (("--ordered",), (True, 1)),
        (("--dialect", "ebms2"), (False, WINDOW)),
        (("--dialect", "ebms2", "--ordered"), (True, WINDOW)),
    ):
        chosen = options(*words)
        assert (chosen.ordered, chosen.window) == expected


@runs
async def test_operator_resumes_messages_that_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    async def manage(_: Machine, *words: str) -> str:
        commands.append(words)
        if len(commands) == 2:
            raise DemoFailed("it is acknowledged")
        return "secret"

    monkeypatch.setattr(Machine, "manage", manage)
    monkeypatch.setattr("demo.crew.LOOK_PAUSE", 0.01)
    machine = Machine("a", Path("unused"), 1)
    operator = Operator([machine], lambda _: False, held=lambda _: [("pair-1", "m1")])
    working = asyncio.create_task(operator.work())
    await until(lambda: working.done() or operator.resumes)
    working.cancel()
    assert commands[1] == ("resume", "pair-1", "--message", "m1", "--reason", REASON)
    assert operator.resumes[0] == "a/pair-1/m1"
    assert operator.refusals == ["a/pair-1/m1: it is acknowledged"]


def flying(link_: OutboundLink, row: OutboundMessage, **fields: object) -> Flight:
    row.state = "flying"
    row.submitted_at = timezone.now() - timedelta(seconds=STUCK_AFTER + 10)
    row.save(update_fields=["state", "submitted_at"])
    return Flight.objects.create(message=row, link=link_, **fields)


def test_flights_are_open_and_may_be_stuck(database: str) -> None:
    tpa = agreement()
    link_ = OutboundLink.objects.create(partner=tpa.partner)
    row = queued(tpa, link_, "m1")
    flight = flying(link_, row, due=timezone.now() - timedelta(seconds=STUCK_AFTER + 10))
    assert list(read_open("a", database)) == [Open("m1", "a: flying, ready")]
    assert stuck(read_database(database)) == 1
    flight.due = timezone.now()
    flight.save()
    assert stuck(read_database(database)) == 0


def test_held_message_needs_an_incident(database: str) -> None:
    tpa = agreement()
    link_ = OutboundLink.objects.create(partner=tpa.partner)
    flying(link_, queued(tpa, link_, "m1"), state="held", held_for="retries_spent")
    about = {"partner": tpa.partner, "direction": "out"}
    History.objects.create(
        **about, subject="message", message_id="m1", event="DeadlinePassed", to_state="held"
    )
    seen = read_database(database)
    assert (silent_suspend(seen), stuck(seen), list(seen.held)) == (2, 0, ["m1"])
    assert seen.suspensions == (Suspension("pair-1", incident=False),)
    now = timezone.now()
    Incident.objects.create(**about, kind="retries_spent", opened_at=now, last_at=now)
    assert silent_suspend(read_database(database)) == 0
    with psycopg.connect(database) as connection:
        glanced = glance(connection)
    assert (glanced.held, glanced.open_messages, glanced.quiet) == ((("pair-1", "m1"),), 1, False)
