"""`POST messages/bulk`: an answer for each line, and all accepted ones kept together."""

import gzip
import json
import tracemalloc
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from msh.api import bulk
from msh.api.framework.problems import TooLarge
from msh.models import History, OutboundMessage, OutboundPayload
from msh.protocol.reason import Refusal
from partners.models import Agreement, Partner
from tests.api.application import Application, order, results
from tests.api.test_access import assert_problem
from tests.api.test_submit import WRONG
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def kept() -> list[str]:
    """MessageIds in the order of sending."""
    return list(OutboundMessage.objects.order_by("pk").values_list("message_id", flat=True))


@pytest.mark.requirement("001-01", "001-02")
def test_lines_are_kept_in_their_order_and_sent(world: World, shop: Application) -> None:
    names = [f"m-{n}" for n in (3, 1, 2)]
    answer = shop.bulk(order(world, name) for name in names)
    assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
    assert answer.lines == [
        {"line": n, "message_id": name, "result": "accepted"}
        for n, name in enumerate(names, start=1)
    ]
    assert kept() == names
    world.settle()
    assert world.received() == names


@pytest.mark.parametrize("last", ["m-9", "m-0"])
def test_blocks_of_several_agreements(
    shop: Application, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """Each block looks its agreements up; the last line may be known."""
    monkeypatch.setattr(bulk, "_PIECE", 200)  # a line and less
    worlds = [make_world() for _ in range(10)]
    for number, one in enumerate(worlds):
        one.agreement.tpa_id = f"agreement-{number}"
        one.agreement.save()
    names = [*(f"m-{n}" for n in range(9)), last]
    lines = [
        order(one, name, tpa_id=one.agreement.tpa_id)
        for one, name in zip(worlds, names, strict=True)
    ]
    assert results(shop.bulk(lines)) == ["accepted"] * 10
    assert results(shop.bulk(lines)) == ["known"] * 10
    assert kept() == names


def row_of(model: Any, without: set[str], **key: Any) -> dict[str, Any]:
    row = model.objects.filter(**key).values().get()
    shown = {name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()}
    return {name: value for name, value in shown.items() if name not in without}


@pytest.mark.parametrize("semantics", ["OnceAndOnlyOnce", "BestEffort"])
def test_message_in_bulk_is_kept_as_one_alone_is(shop: Application, semantics: str) -> None:
    """Column by column, in every table, but for ids, times and the boundary."""
    alone, among = make_world(), make_world()
    payload = {"content": "<ä/>", "label": "l", "description": "d", "content_type": "text/xml"}
    fields: dict[str, Any] = {
        "conversation_id": "c",
        "ref_to_message_id": "r",
        "semantics": semantics,
        "payloads": [payload, {"content_base64": "AP8="}],
    }
    shop.post("messages", order(alone, "m", **fields))
    shop.bulk([order(among, "m", **fields)])
    boundaries = []
    found = []
    for one in (alone, among):
        message = OutboundMessage.objects.get(link=one.link)
        boundaries.append(message.boundary)
        differing = {"id", "link_id", "agreement_id", "submitted_at", "content_digest", "boundary"}
        parts = [
            row_of(OutboundPayload, {"id", "message_id"}, message=message, position=n)
            for n in (1, 2)
        ]
        for part in parts:
            part["wire"] = part["wire"].replace(message.boundary.encode(), b"BOUNDARY")
        history = row_of(History, {"id", "at", "partner_id"}, partner=one.there)
        found.append([row_of(OutboundMessage, differing, pk=message.pk), parts, history])
    assert found[0] == found[1]
    assert boundaries[0] != boundaries[1]


@pytest.mark.requirement("001-05", "001-18", "001-21")
def test_known_lines_have_the_result_known(world: World, shop: Application) -> None:
    shop.post("messages", order(world, "m-1"))
    lines = [
        order(world, "m-1"),
        order(world, "m-2"),
        order(world, "m-2"),
        order(world, "m-2", action="Old"),
        order(world, "m-1", action="Old"),
    ]
    answer = shop.bulk(lines)
    assert results(answer) == ["known", "accepted", "known", "refused", "refused"]
    assert [line.get("code") for line in answer.lines[3:]] == [Refusal.MESSAGE_ID_REUSED] * 2
    assert kept() == ["m-1", "m-2"]
    assert results(shop.bulk(lines)) == ["known", "known", "known", "refused", "refused"]
    assert OutboundPayload.objects.count() == History.objects.count() == 2


def test_lines_that_differ_in_one_field_keep_their_own(world: World, shop: Application) -> None:
    """What lines have in common is checked once."""
    usual = {
        "partner": world.there.name,
        "service_interface": "Orders",
        "action": "New",
        "semantics": "OnceAndOnlyOnce",
    }
    other = {
        "partner": make_world().there.name,
        "service_interface": "Invoices",
        "action": "Old",
        "semantics": "BestEffort",
    }
    wanted = [usual, *({**usual, name: value} for name, value in other.items()), usual]
    shop.bulk(order(world, f"m-{n}", **fields) for n, fields in enumerate(wanted))
    found = OutboundMessage.objects.order_by("pk").values_list(
        "agreement__partner__name", "service_interface", "action", "semantics"
    )
    assert list(found) == [tuple(fields.values()) for fields in wanted]


def test_same_bulk_is_known_across_blocks(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PIECE", 500)
    lines = [order(world, f"m-{n % 5}") for n in range(10)]
    assert results(shop.bulk(lines)) == ["accepted"] * 5 + ["known"] * 5
    assert kept() == [f"m-{n}" for n in range(5)]


BAD_LINES: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"[]", "JSON object"),
    (b'{"message_id": "\xff"}', "not JSON in UTF-8"),
    (b'{"message_id": "\\ud800"}', "not JSON in UTF-8"),
    (b"[" * 5000, "not JSON"),
    (b"\x00", "not JSON"),
    (b'{"message_id": 5}', "a string, not int"),
    (b'{"message_id": ["m"], "tpa_id": {}}', "a string, not list"),
    (b'{"message_id": "m", "tpa_id": "tpa\\u0000"}', "service_interface is required"),
]


@pytest.mark.requirement("001-04")
@pytest.mark.parametrize(("line", "said"), BAD_LINES)
def test_bad_line_is_refused_and_its_neighbours_are_kept(
    world: World, shop: Application, line: bytes, said: str
) -> None:
    answer = shop.bulk([order(world, "m-1"), line, order(world, "m-3")])
    assert results(answer) == ["accepted", "refused", "accepted"]
    assert said in answer.lines[1]["reason"]
    is_document = "JSON" in said
    assert answer.lines[1]["code"] == (Refusal.DOCUMENT if is_document else Refusal.INVALID)
    assert kept() == ["m-1", "m-3"]


@pytest.mark.requirement("001-04")
@pytest.mark.parametrize(("changed", "field", "said"), WRONG)
def test_wrong_line_is_refused_for_what_one_alone_is(
    world: World, shop: Application, changed: dict[str, Any], field: str, said: str
) -> None:
    wrong = {**order(world, "m-2"), **changed}
    answer = shop.bulk([order(world, "m-1"), wrong, order(world, "m-3")])
    assert results(answer) == ["accepted", "refused", "accepted"]
    assert answer.lines[1]["message_id"][:255] == wrong["message_id"][:255]
    assert said in answer.lines[1]["reason"]
    assert kept() == ["m-1", "m-3"]


@pytest.mark.parametrize(
    "field", ["tpa_id", "partner", "message_id", "action", "semantics", "x" * 1000, "content_type"]
)
def test_reason_does_not_repeat_what_is_large(world: World, shop: Application, field: str) -> None:
    large = "€" * 100_000
    changed = {"payloads": [{"content": "", field: large}]} if "_type" in field else {field: large}
    wrong = {**order(world, "m-1"), **changed}
    answer = shop.bulk([wrong])
    assert results(answer) == ["refused"]
    assert len(answer.content) < 3000
    alone = shop.post("messages", wrong)
    assert alone.status == 422
    assert len(alone.content) < 3000


def test_refused_line_names_its_message(world: World, shop: Application) -> None:
    names = ["m" * 255, "m" * 256]
    named = [
        line["message_id"] for line in shop.bulk(order(world, n, action="") for n in names).lines
    ]
    assert named == ["m" * 255, "m" * 255 + "…"]


def test_line_without_a_message_id(world: World, shop: Application) -> None:
    answer = shop.bulk([order(world), order(world, "")])
    assert results(answer) == ["refused", "refused"]
    assert {line["code"] for line in answer.lines} == {Refusal.INVALID}


def test_payload_of_thirty_megabytes_is_refused_alone(world: World, shop: Application) -> None:
    large = order(world, "m-2", payloads=[{"content": "x" * 30_000_000}])
    answer = shop.bulk([order(world, "m-1"), large, order(world, "m-3")])
    assert results(answer) == ["accepted", "refused", "accepted"]
    assert "30000000 bytes" in answer.lines[1]["reason"]
    assert kept() == ["m-1", "m-3"]


def line(world: World, message_id: str) -> bytes:
    return json.dumps(order(world, message_id)).encode()


def test_lines_without_gzip_and_with_an_end(world: World, shop: Application) -> None:
    body = line(world, "m-1") + b"\n" + line(world, "m-2") + b"\r\n"
    assert results(shop.bulk_body(body)) == ["accepted", "accepted"]


def test_lines_that_are_cut_anywhere(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PIECE", 7)
    names = [f"m-{n}" for n in range(4)]
    shop.bulk(order(world, name) for name in names)
    assert kept() == names


def test_most_lines(world: World, shop: Application) -> None:
    body = b"{}\n" * 5_000
    assert results(shop.bulk_body(body)) == ["refused"] * 5_000
    answer = shop.bulk_body(line(world, "m-1") + b"\n" + body)
    assert_problem(answer, 413, "at most 5000 lines")
    assert kept() == []


def test_gzip_bomb_is_stopped(world: World, shop: Application) -> None:
    beginning = line(world, "m-1") + b"\n"
    bomb = gzip.compress(beginning + b" " * (40 * 1024 * 1024))
    assert len(bomb) < 100_000
    assert_problem(shop.bulk_body(bomb, "gzip"), 413, "bytes of lines")
    assert kept() == []


def test_body_that_is_too_large(shop: Application) -> None:
    assert_problem(shop.bulk_body(b" " * (32 * 1024 * 1024 + 1)), 413, "33554432 bytes")


@pytest.mark.parametrize("gzipped", [False, True])
def test_millions_of_lines_take_little_memory(gzipped: bool) -> None:
    body = b"xx\n" * 4_000_000
    lines = bulk.Lines(gzip.compress(body) if gzipped else body, gzipped)
    del body
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="at most 5000 lines"):
            list(lines.blocks())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 1024 * 1024


@pytest.mark.parametrize("cut", [1, 30])
def test_gzip_that_ends_in_the_middle(world: World, shop: Application, cut: int) -> None:
    whole = gzip.compress(b"\n".join(line(world, f"m-{n}") for n in range(9)))
    assert_problem(shop.bulk_body(whole[:-cut], "gzip"), 400, "is truncated")
    assert kept() == []


@pytest.mark.parametrize("piece", [1, 1 << 18])
def test_something_behind_the_gzip(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(bulk, "_PIECE", piece)
    two = gzip.compress(line(world, "m-1") + b"\n") + gzip.compress(line(world, "m-2"))
    assert_problem(shop.bulk_body(two, "gzip"), 400, "Send a single gzip")
    assert kept() == []


def test_gzip_that_is_broken(world: World, shop: Application) -> None:
    whole = bytearray(gzip.compress(b"\n".join(line(world, f"m-{n}") for n in range(600))))
    whole[-6] ^= 1  # of its checksum
    assert_problem(shop.bulk_body(bytes(whole), "gzip"), 400, "not valid gzip")
    assert kept() == []


@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (b"", "gzip", 400, Refusal.DOCUMENT),
        (b"{}", "gzip", 400, Refusal.DOCUMENT),
        (zlib.compress(b"{}"), "gzip", 400, Refusal.DOCUMENT),
        (b"{}", "br", 415, Refusal.REQUEST),
    ],
)
def test_body_that_cannot_be_read(
    shop: Application, body: bytes, encoding: str, status: int, code: Refusal
) -> None:
    assert_problem(shop.bulk_body(body, encoding), status, code=code)


def test_body_of_another_type(shop: Application) -> None:
    assert_problem(shop.ask("POST", "messages/bulk", b"{}", "application/json"), 415)


def test_first_messages_to_a_partner(world: World, shop: Application) -> None:
    assert not world.there.in_use
    assert results(shop.bulk([order(world, "m-1")])) == ["accepted"]
    world.there.refresh_from_db()
    assert world.there.in_use


def test_partner_that_is_closed_to_applications(world: World, shop: Application) -> None:
    other = make_world()
    shop.bulk([order(world, "m-1")])
    Partner.objects.filter(pk=world.there.pk).update(accepts=False)

    lines = [order(world, "m-1"), order(world, "m-2"), order(other, "m-3"), order(world, "m-4")]
    answer = shop.bulk(lines)

    assert results(answer) == ["known", "not_now", "accepted", "not_now"]
    assert [line.get("code") for line in answer.lines] == [
        *(None, Refusal.CLOSED, None, Refusal.CLOSED)
    ]
    assert kept() == ["m-1", "m-3"]
    Partner.objects.filter(pk=world.there.pk).update(accepts=True)
    assert results(shop.bulk(lines)) == ["known", "accepted", "known", "accepted"]
    assert kept() == ["m-1", "m-3", "m-2", "m-4"]


@pytest.mark.requirement("EB-197")
def test_agreement_that_has_ended(world: World, shop: Application) -> None:
    other = make_world()
    shop.bulk([order(world, "m-1")])
    Agreement.objects.filter(partner=world.there).update(ends=datetime(2026, 1, 1, tzinfo=UTC))

    lines = [order(world, "m-1"), order(world, "m-2"), order(other, "m-3"), order(world, "m-4")]
    answer = shop.bulk(lines)
    assert results(answer) == ["known", "refused", "accepted", "refused"]
    assert [line.get("code") for line in answer.lines] == [*(None, Refusal.ENDED)] * 2
    assert kept() == ["m-1", "m-3"]


def test_partner_that_is_opened_meanwhile_stays_closed_to_the_request(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a line would overtake the one that was put off."""
    Partner.objects.filter(pk=world.there.pk).update(accepts=False)
    read = bulk._read

    def read_and_open(line: bytes) -> Any:
        if b"m-2" in line:
            assert Partner.objects.filter(pk=world.there.pk).update(accepts=True)
        return read(line)

    monkeypatch.setattr(bulk, "_PIECE", 100)  # a line and less
    monkeypatch.setattr(bulk, "_read", read_and_open)
    lines = [order(world, "m-1"), order(world, "m-2")]
    assert results(shop.bulk(lines)) == ["not_now", "not_now"]
    assert results(shop.bulk(lines)) == ["accepted", "accepted"]


def test_statements_do_not_grow_with_the_lines(
    world: World, shop: Application, django_assert_max_num_queries: Any
) -> None:
    shop.bulk([order(world, "m-0")])
    with django_assert_max_num_queries(12):
        shop.bulk([order(world, f"m-{n}", tpa_id=f"tpa-{n % 50}") for n in range(400)])


# --- in order -------------------------------------------------------------------------------------
WRONG_LINES = {
    "field": {"action": ""},
    "unknown field": {"actoin": "New"},
    "payload": {"payloads": [{"content_base64": "?"}]},
    "partner": {"partner": "nobody"},
    "type": {"partner": 5},
}


@pytest.mark.parametrize("wrong", WRONG_LINES.values(), ids=WRONG_LINES)
def test_behind_a_refused_line_none_of_its_pair_is_kept(
    world: World, shop: Application, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PIECE", 200)  # a line and less
    other = make_world()
    other.agreement.tpa_id = "tpa-other"
    other.agreement.save()
    shop.bulk([order(world, "known")])

    def of_other(name: str) -> dict[str, Any]:
        return order(other, name, tpa_id="tpa-other")

    lines = [
        order(world, "before"),
        of_other("other-1"),
        order(world, "refused", **wrong),
        order(world, "behind"),
        order(world, "known"),
        of_other("other-2"),
        order(world, "last"),
    ]
    answer = shop.bulk(lines, on_refusal="stop")
    accepted, held = "accepted", "not_sent"
    assert results(answer) == [accepted, accepted, "refused", held, "known", accepted, held]
    assert {line.get("code") for line in answer.lines[3:]} == {Refusal.BEHIND_REFUSED, None}
    assert kept() == ["known", "before", "other-1", "other-2"]

    lines[2] = order(world, "refused")
    assert results(shop.bulk(lines, on_refusal="stop")).count(accepted) == 3
    assert kept()[4:] == ["refused", "behind", "last"], "in order, when it is corrected"


def test_changed_content_of_a_known_message_stops_its_pair(world: World, shop: Application) -> None:
    shop.bulk([order(world, "m-1"), order(world, "m-3")])
    lines = [order(world, "m-1", action="Old"), order(world, "m-2"), order(world, "m-3")]
    assert results(shop.bulk(lines, on_refusal="stop")) == ["refused", "not_sent", "known"]
    twice = [order(world, "m-4"), order(world, "m-4", action="Old"), *lines[1:]]
    answer = shop.bulk(twice, on_refusal="stop")
    assert results(answer) == ["accepted", "refused", "not_sent", "known"]
    assert results(shop.bulk(lines)) == ["refused", "accepted", "known"], "nothing stops by default"


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"tpa_id": 5}'])
def test_line_that_may_be_of_any_pair_stops_all(
    world: World, shop: Application, line: bytes
) -> None:
    lines: list[Any] = [order(world, "m-1"), line]
    lines += [order(world, "m-2"), order(make_world(), "m-3")]
    answer = shop.bulk(lines, on_refusal="stop")
    assert results(answer) == ["accepted", "refused", "not_sent", "not_sent"]
    assert kept() == ["m-1"]


def test_line_without_partner_stops_all_that_share_its_agreement(
    world: World, shop: Application
) -> None:
    other = make_world()
    ambiguous = {key: value for key, value in order(world, "m").items() if key != "partner"}
    lines = [ambiguous, order(world, "m-1"), order(other, "m-2")]
    answer = shop.bulk(lines, on_refusal="stop")
    assert results(answer) == ["refused", "not_sent", "not_sent"]


def test_closed_partner_does_not_stop_others(world: World, shop: Application) -> None:
    other = make_world()
    other.agreement.tpa_id = "tpa-other"
    other.agreement.save()
    shop.bulk([order(world, "known")])
    Partner.objects.filter(pk=world.there.pk).update(accepts=False)
    lines = [order(world, "m-1"), order(other, "m-2", tpa_id="tpa-other"), order(world, "known")]
    for asked in ({}, {"on_refusal": "stop"}):
        answer = shop.bulk(lines, **asked)
        first, known = ("accepted", "known") if not asked else ("known", "known")
        assert results(answer) == ["not_now", first, known]
        assert answer.lines[0]["code"] == Refusal.CLOSED
