"""The checker's reading of records, log and databases: what it reads must be what is there."""

import json
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import psycopg
from django.utils import timezone

from demo.application import consume
from demo.checker import lost, silent_suspend, stuck
from demo.evidence import Open, Suspension, gather, read_database, read_open, read_proxy_log
from demo.record import Copy, Record
from demo.rows import InboundTable
from demo.sighting import sight
from demo.watch import glance
from msh.models import (
    Attempt,
    History,
    InboundLink,
    InboundMessage,
    InboundPayload,
    Incident,
    OutboundLink,
    OutboundMessage,
)
from partners.models import Agreement, Partner
from tests.demo.link import LANE, message, runs

SECOND = timedelta(seconds=1)


def agreement(name: str = "pair-1") -> Agreement:
    partner = Partner.objects.create(
        name=name, our_uri=f"http://a.example/{name}/", uri=f"http://b.example/{name}/"
    )
    return Agreement.objects.create(
        partner=partner, tpa_id=f"tpa-{name}", our_party="a", their_party="b"
    )


def queued(tpa: Agreement, link: OutboundLink, message_id: str) -> OutboundMessage:
    return OutboundMessage.objects.create(
        link=link,
        agreement=tpa,
        message_id=message_id,
        semantics="OnceAndOnlyOnce",
        submitted_at=timezone.now(),
        content_digest=bytes(32),
        size=1,
        boundary="x",
    )


def accepted(tpa: Agreement, message_id: str, content: bytes) -> InboundMessage:
    link, _ = InboundLink.objects.get_or_create(partner=tpa.partner)
    row = InboundMessage.objects.create(
        link=link,
        agreement=tpa,
        message_id=message_id,
        semantics="OnceAndOnlyOnce",
        epoch=1,
        sequence_number=1,
        sent_at=timezone.now(),
        received_at=timezone.now(),
        content_digest=bytes(32),
        header=b"",
    )
    InboundPayload.objects.create(message=row, position=1, content_id="p", content=content)
    return row


def suspend(link: OutboundLink, at: datetime, event: str = "deadline_passed") -> None:
    link.state, link.suspended_since = "suspended", at
    link.save(update_fields=["state", "suspended_since"])
    History.objects.create(
        partner=link.partner,
        direction="out",
        subject="link",
        event=event,
        from_state="waiting",
        to_state="suspended",
    )


def open_incident(link: OutboundLink, at: datetime, resolved: datetime | None = None) -> None:
    Incident.objects.create(
        partner=link.partner,
        direction="out",
        kind="retries_spent",
        opened_at=at,
        last_at=at,
        resolved_at=resolved,
    )


def test_deliveries_are_read_in_their_order(database: str) -> None:
    tpa = agreement()
    first = accepted(tpa, "m1", b"one")
    consume(first)
    consume(first)
    (one, two) = read_database(database).deliveries
    assert (one.pair, one.message_id, one.sha256) == ("pair-1", "m1", sha256(b"one").hexdigest())
    assert two == one
    assert read_database(database).accepted == {"m1"}


def test_a_lane_that_nothing_will_move_is_stuck(database: str) -> None:
    tpa = agreement()
    link = OutboundLink.objects.create(partner=tpa.partner)
    assert stuck(read_database(database)) == 0
    row = queued(tpa, link, "m1")
    (lane,) = read_database(database).lanes
    assert (lane.pair, lane.state, lane.open_messages, lane.overdue) == ("pair-1", "idle", 1, None)
    assert 0 <= lane.still < 60
    assert stuck(read_database(database)) == 0  # it was submitted just now

    row.submitted_at = timezone.now() - 100 * SECOND
    row.save(update_fields=["submitted_at"])
    assert stuck(read_database(database)) == 1

    link.state, link.in_flight, link.due = "waiting", row, timezone.now() + 60 * SECOND
    link.save(update_fields=["state", "in_flight", "due"])
    assert stuck(read_database(database)) == 0
    link.due = timezone.now() - 70 * SECOND
    link.save(update_fields=["due"])
    assert stuck(read_database(database)) == 1

    Attempt.objects.create(message=row, number=1, claimed_at=timezone.now())
    assert stuck(read_database(database)) == 0


def test_a_suspension_with_its_incident_is_not_silent(database: str) -> None:
    link = OutboundLink.objects.create(partner=agreement().partner)
    suspend(link, timezone.now())
    open_incident(link, timezone.now())
    assert read_database(database).suspensions == (Suspension("pair-1", incident=True),)
    assert silent_suspend(read_database(database)) == 0


def test_a_suspension_without_an_incident_is_silent(database: str) -> None:
    link = OutboundLink.objects.create(partner=agreement().partner)
    suspend(link, timezone.now())
    assert silent_suspend(read_database(database)) == 2  # now, and in the history


def test_an_incident_of_another_time_or_partner_does_not_excuse(database: str) -> None:
    link = OutboundLink.objects.create(partner=agreement().partner)
    other = OutboundLink.objects.create(partner=agreement("pair-2").partner)
    open_incident(other, timezone.now())
    open_incident(link, timezone.now() - 60 * SECOND, resolved=timezone.now() - 30 * SECOND)
    suspend(link, timezone.now())
    assert read_database(database).suspensions == (Suspension("pair-1", incident=False),)


def test_a_resumed_suspension_keeps_its_incident(database: str) -> None:
    link = OutboundLink.objects.create(partner=agreement().partner)
    suspend(link, timezone.now())
    open_incident(link, timezone.now(), resolved=timezone.now() + SECOND)
    link.state, link.suspended_since = "idle", None
    link.save(update_fields=["state", "suspended_since"])
    assert silent_suspend(read_database(database)) == 0


def test_attempts_are_counted(database: str) -> None:
    tpa = agreement()
    row = queued(tpa, OutboundLink.objects.create(partner=tpa.partner), "m1")
    for number in (1, 2):
        Attempt.objects.create(message=row, number=number, claimed_at=timezone.now())
    assert read_database(database).attempts == 2


def test_a_glance_sees_what_is_not_yet_done(database: str) -> None:
    tpa = agreement()
    with psycopg.connect(database, autocommit=True) as eye:
        assert glance(eye).quiet
        link = OutboundLink.objects.create(partner=tpa.partner)
        queued(tpa, link, "m1")
        assert (glance(eye).open_messages, glance(eye).quiet) == (1, False)
        suspend(link, timezone.now())
        assert glance(eye).suspended == ("pair-1",)
        consume(accepted(tpa, "m2", b"two"))
        assert (glance(eye).delivered, glance(eye).open_messages) == (1, 2)


def test_pending_messages_are_under_way(tmp_path: Path, database: str) -> None:
    tpa = agreement()
    queued(tpa, OutboundLink.objects.create(partner=tpa.partner), "m1")
    row = accepted(tpa, "m2", b"two")
    assert set(read_open("a", database)) == {Open("m1", "a: queued"), Open("m2", "a: accepted")}

    row.state = "delivered"
    row.save(update_fields=["state"])
    (tmp_path / "log").touch()
    evidence = gather([], tmp_path / "log", {}, {"a": database}, hops=1)
    assert evidence.under_way == {Open("m1", "a: queued")}
    assert lost(evidence) == {"m2"}  # settled as done, and no application has it


def test_an_operator_suspends_without_an_incident(database: str) -> None:
    link = OutboundLink.objects.create(partner=agreement().partner)
    suspend(link, timezone.now(), event="OperatorSuspended")
    assert silent_suspend(read_database(database)) == 1  # now, as long as nobody says why
    OutboundLink.objects.update(suspended_for="operator")
    assert silent_suspend(read_database(database)) == 0


def test_deliveries_of_several_databases_are_in_the_order_of_time(
    tmp_path: Path, database: str
) -> None:
    """The same database twice, in the place of two."""
    tpa = agreement()
    for message_id in ("m1", "m2"):
        consume(accepted(tpa, message_id, b"one"))
        InboundMessage.objects.update(link=InboundLink.objects.get(), sequence_number=None)
    (tmp_path / "log").touch()
    evidence = gather([], tmp_path / "log", {}, {"a": database, "b": database}, hops=1)
    assert [one.message_id for one in evidence.deliveries] == ["m1", "m1", "m2", "m2"]


def test_the_proxy_sees_a_row_only_when_it_is_there(database: str) -> None:
    accepted(agreement(), "m1", b"one")

    @runs
    async def look() -> None:
        table = InboundTable(database)
        assert [await table.holds("m1"), await table.holds("m2")] == [True, False]
        await table.aclose()

    look()


def test_the_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    body = message("m1", 7)
    record = Record(5, "a>b", sight(body), len(body), fault="duplicate", answered=204)
    record.copies = [Copy(6, 204), Copy(7)]
    passing = record.line()
    (tmp_path / "log").write_text(passing + "\n")
    (read,) = read_proxy_log(tmp_path / "log", {})
    assert (read.copies, read.unreachable) == ((6, 7), 0)  # the answer to 7 may still come

    record.ended = True
    (tmp_path / "log").write_text(f"{passing}\n{record.line()}\n")
    (read,) = read_proxy_log(tmp_path / "log", {" > ".join(LANE): "pair-1"})
    assert (read.at, read.pair, read.kind, read.message_id) == (5, "pair-1", "Normal", "m1")
    assert (read.copies, read.unreachable, read.fault) == ((6, 7), 1, "duplicate")
    assert (read.sha256, read.row_found) == (sha256(body).hexdigest(), None)


def test_submitted_payloads_are_hashed_from_their_files(tmp_path: Path, database: str) -> None:
    document = tmp_path / "order.xml"
    document.write_bytes(b"<Order/>")
    line = {"pair": "pair-1", "message_id": "m1", "order": 0, "file": str(document), "sha256": "-"}
    (tmp_path / "record").write_text(json.dumps(line) + "\n")
    (tmp_path / "log").touch()
    databases = {"a": database}
    evidence = gather([tmp_path / "record"], tmp_path / "log", {}, databases, hops=1)
    (submission,) = evidence.submissions
    assert submission.sha256 == sha256(b"<Order/>").hexdigest()
