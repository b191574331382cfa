"""`POST messages`: kept once, whatever is sent again; refused with the field and the cure."""

import base64
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from msh.flows.operations.prune import prune_all
from msh.models import OutboundMessage, OutboundPayload
from msh.protocol.reason import Refusal
from partners.models import Agreement, Partner
from tests.api.application import Application, order, results
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("001-01", "001-17")
def test_new_message_is_kept(world: World, shop: Application) -> None:
    answer = shop.post("messages", order(world, "m-1"))
    assert answer.status == 201
    assert answer.json["message_id"] == "m-1"
    stored = shop.get("messages/m-1").json
    content = b"<order/>"
    payload = {
        "number": 1,
        "content_type": "application/xml",
        "label": "order.xml",
        "description": "",
        "size": len(content),
        "sha256": sha256(content).hexdigest(),
        "removed": False,
    }
    more = {
        "explanation": stored["explanation"],
        "instead_of": None,
        "submitted_as": None,
        "payloads": [payload],
    }
    assert stored == answer.json | more
    (stored,) = OutboundMessage.objects.all()
    assert (stored.message_id, stored.state, stored.link.partner) == ("m-1", "queued", world.there)
    world.settle()
    assert world.received() == ["m-1"]


def test_a_changed_agreement_counts_from_the_next_message(world: World, shop: Application) -> None:
    """Nothing of it is remembered from one request to the next."""
    body = order(world)
    shop.post("messages", body)
    ours = Agreement.objects.filter(pk=world.agreement.pk)
    ours.update(semantics="BestEffort")
    assert shop.post("messages", body).json["semantics"] == "BestEffort"
    Partner.objects.filter(pk=world.there.pk).update(name="renamed")
    assert shop.post("messages", body | {"partner": "renamed"}).status == 201
    ours.update(tpa_id="another")
    assert_problem(shop.post("messages", body), 422, "no agreement")


def test_without_a_message_id_one_is_given(world: World, shop: Application) -> None:
    first, second = (shop.post("messages", order(world)).json["message_id"] for _ in range(2))
    assert len(first) == 36
    assert first != second


@pytest.mark.requirement("001-05", "001-18")
@pytest.mark.parametrize("by_key", [False, True])
def test_same_again_is_the_same_message(world: World, shop: Application, by_key: bool) -> None:
    body = order(world) if by_key else order(world, "m-1")
    headers = {"Idempotency-Key": "m-1"} if by_key else {}
    first, second = (shop.post("messages", body, **headers) for _ in range(2))
    assert (first.status, second.status) == (201, 200)
    assert first.json == second.json
    assert OutboundMessage.objects.get().message_id == "m-1"


@pytest.mark.parametrize(
    "changed", [{"action": "Old"}, {"payloads": [{"content": "<other/>"}]}, {"payloads": []}]
)
def test_same_id_with_other_content_is_a_conflict(
    world: World, shop: Application, changed: dict[str, Any]
) -> None:
    shop.post("messages", order(world, "m-1"))
    answer = shop.post("messages", {**order(world, "m-1"), **changed})
    assert_problem(answer, 409, "m-1", code=Refusal.MESSAGE_ID_REUSED)
    assert answer.json["field"] == "message_id"
    assert OutboundMessage.objects.count() == 1


def test_same_message_in_another_wrapping(world: World, shop: Application) -> None:
    """After a 503 or a broken connection: as a form what was sent as JSON, and the reverse."""
    parts = [
        {"content": one, "content_type": "application/xml", "label": f"{one}.xml"}
        for one in ("one", "two")
    ]
    first = shop.post("messages", order(world, "m-1", payloads=parts))
    values = {key: value for key, value in order(world, "m-1").items() if key != "payloads"}
    files = [SimpleUploadedFile(f"{one}.xml", one.encode(), "application/xml")
             for one in ("one", "two")]  # fmt: skip

    again = form(shop, **values, payload=files)

    assert (first.status, again.status_code) == (201, 200)
    assert again.json() == first.json
    for changed in ({"payload": files[::-1]}, {"payload": files, "ref_to_message_id": "m-0"}):
        for file in files:
            file.seek(0)
        other = form(shop, **values, **changed)
        assert (other.status_code, other.json()["field"]) == (409, "message_id"), changed
    turned = shop.post("messages", order(world, "m-1", payloads=parts[::-1]))
    assert_problem(turned, 409, "m-1", code=Refusal.MESSAGE_ID_REUSED)
    world.settle()
    assert world.received() == ["m-1"]


def test_message_of_a_form_is_known_as_json(world: World, shop: Application) -> None:
    values = {key: value for key, value in order(world, "m-1").items() if key != "payloads"}
    file = SimpleUploadedFile("order.xml", b"<order/>", "text/plain")
    assert form(shop, **values, payload=file).status_code == 201
    part = {"content": "<order/>", "label": "order.xml", "content_type": "text/plain"}
    assert shop.post("messages", order(world, "m-1", payloads=[part])).status == 200
    (stored,) = OutboundMessage.objects.all()
    assert stored.message_id == "m-1"


def test_key_beside_another_message_id(world: World, shop: Application) -> None:
    answer = shop.post("messages", order(world, "m-1"), **{"Idempotency-Key": "m-2"})
    assert_problem(answer, 422, "Idempotency-Key")
    assert not OutboundMessage.objects.exists()


@pytest.mark.parametrize("by_key", [False, True])
def test_id_that_is_empty(world: World, shop: Application, by_key: bool) -> None:
    """Sent again, it would be another message."""
    body = order(world) if by_key else order(world, "")
    answer = shop.post("messages", body, **{"Idempotency-Key": ""} if by_key else {})
    assert_problem(answer, 422, "empty")
    assert not OutboundMessage.objects.exists()


def test_ids_are_those_of_a_partner(world: World, shop: Application) -> None:
    nameless = order(world, "m-1")
    del nameless["partner"]
    assert_problem(shop.post("messages", nameless), 422, "several partners have an agreement tpa-1")
    answer = shop.post("messages", order(world, "m-1"))
    assert (answer.status, answer.json["partner"]) == (201, world.there.name)


@pytest.mark.requirement("001-05", "001-18")
def test_same_submission_after_the_message_was_removed(
    world: World, shop: Application, settings: Any
) -> None:
    names = ["m-1", "m-2", "m-3"]
    first = {name: shop.post("messages", order(world, name)).json for name in names}
    world.settle()
    ended = timezone.now() - timedelta(days=400)
    OutboundMessage.objects.update(completed_at=ended)
    prune_all()
    assert set(OutboundMessage.objects.values_list("message_id", flat=True)) == {"m-3"}

    answer = shop.post("messages", order(world, "m-1"))
    assert answer.status == 200
    gone = {"state": "acknowledged", "attempts": None, "sequence_number": None, "epoch": None}
    ended_at = answer.json["ended_at"]
    assert answer.json == first["m-1"] | gone | {"ended_at": ended_at}
    assert ended_at.startswith(f"{ended:%Y-%m-%dT%H:%M}")
    changed = shop.post("messages", order(world, "m-1", action="Old"))
    assert_problem(changed, 409, "m-1", code=Refusal.MESSAGE_ID_REUSED)
    lines = [order(world, name) for name in (*names, "m-4")]
    assert results(shop.bulk(lines)) == ["known", "known", "known", "accepted"]
    answer = shop.bulk([order(world, "m-2", action="Old")])
    assert (answer.lines[0]["result"], answer.lines[0]["code"]) == ("refused", "message_id_reused")
    assert OutboundMessage.objects.count() == 2
    other = make_world()
    assert shop.post("messages", order(other, "m-1")).status == 201, "ids are of a partner"

    settings.MSH_KEEP_IDS = 398
    prune_all()
    assert shop.post("messages", order(world, "m-1")).status == 201
    assert results(shop.bulk(lines)) == ["known", "accepted", "known", "known"]


def test_payload_in_base64(world: World, shop: Application) -> None:
    content = bytes(range(256))
    payload = {
        "content_base64": base64.b64encode(content).decode(),
        "content_type": "image/png",
        "label": "Büro",
        "description": "a picture",
    }
    assert shop.post("messages", order(world, "m-1", payloads=[payload, payload])).status == 201
    (first, second) = OutboundPayload.objects.all()
    assert (first.content_type, first.label, first.description) == (
        *("image/png", "Büro", "a picture"),
    )
    assert content in bytes(second.wire)


def form(shop: Application, **fields: Any) -> Any:
    return Client().post(
        "/api/v1/messages", fields, headers={"Authorization": f"Bearer {shop.secret}"}
    )


def test_payload_as_a_file(world: World, shop: Application, tmp_path: Any) -> None:
    document = tmp_path / "order.xml"
    document.write_bytes(b"<order>\xff</order>")
    values = {key: value for key, value in order(world, "m-1").items() if key != "payloads"}
    with document.open("rb") as file:
        answer = form(shop, **values, payload=file)
    assert answer.status_code == 201
    (payload,) = OutboundPayload.objects.all()
    assert (payload.label, payload.content_type) == ("order.xml", "application/xml")
    assert b"<order>\xff</order>" in bytes(payload.wire)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"payload": "text"}, "payload"),
        ({"action": ["New", "Old"]}, "action"),
        ({"semantic": "BestEffort"}, "semantic"),
        ({"action": b"N\xff"}, "action"),
    ],
)
def test_form_that_is_wrong(
    world: World, shop: Application, fields: dict[str, Any], field: str
) -> None:
    values = {key: value for key, value in order(world, "m-1").items() if key != "payloads"}
    answer = form(shop, **{**values, **fields})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.requirement("001-04")
def test_disk_that_takes_no_file_is_not_the_applications_fault(
    world: World, shop: Application, settings: Any, tmp_path: Any
) -> None:
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 0
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path / "none"
    values = {key: value for key, value in order(world, "m-1").items() if key != "payloads"}
    answer = form(shop, **values, payload=BytesIO(b"<order/>"))
    assert (answer.status_code, answer.json()["status"]) == (503, 503)
    assert int(answer.headers["Retry-After"]) >= 1
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    assert form(shop, **values, payload=BytesIO(b"<order/>")).status_code == 201
    assert form(shop, **values, document=BytesIO(b"<order/>")).status_code == 422
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["messages", "messages/bulk", "deliveries/take"])
def test_body_that_ends_in_the_middle(
    shop: Application, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def hung_up(*_: object) -> bytes:
        raise ConnectionResetError("connection reset by peer")

    monkeypatch.setattr("django.test.client.FakePayload.read", hung_up)
    content_type = "application/x-ndjson" if address.endswith("bulk") else "application/json"
    answer = shop.ask("POST", address, b"{}", content_type)
    assert_problem(answer, 400, "connection reset")


def test_error_of_ours_is_not_the_applications_fault(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("msh.api.messages.prepared", endless)
    assert_problem(shop.post("messages", order(world, "m-1")), 500)


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"tpa_id": "tpa-9"}, "tpa_id", "no agreement tpa-9"),
    ({"tpa_id": None}, "tpa_id", "a string, not null"),
    ({"tpa_id": "tpa\0"}, "tpa_id", "no agreement"),
    ({"partner": None}, "partner", "a string, not null"),
    ({"partner": "nobody"}, "partner", "nobody has no agreement tpa-1"),
    ({"action": ""}, "action", "required"),
    ({"action": 7}, "action", "a string, not int"),
    ({"service_interface": " Orders"}, "service_interface", "white space"),
    ({"message_id": "m" * 300}, "message_id", "300 characters"),
    ({"message_id": "m\n1"}, "message_id", "control characters"),
    ({"message_id": "m\0"}, "message_id", "control characters"),
    ({"conversation_id": "c" * 256}, "conversation_id", "256 characters"),
    ({"semantics": "Sometimes"}, "semantics", "OnceAndOnlyOnce, BestEffort"),
    ({"urgent": "yes"}, "urgent", "valid ones are action, "),
    ({"payloads": "<order/>"}, "payloads", "a list, not str"),
    ({"payloads": ["<order/>"]}, "payloads[1]", "an object, not str"),
    ({"payloads": [{"content": "a"}, {}]}, "payloads[2].content", "give either"),
    ({"payloads": [{"content": "a", "content_base64": ""}]}, "payloads[1].content", "give either"),
    ({"payloads": [{"content_base64": "AA"}]}, "payloads[1].content_base64", "not valid base64"),
    ({"payloads": [{"content_base64": "ä"}]}, "payloads[1].content_base64", "not valid base64"),
    ({"payloads": [{"content": "a", "label": 1}]}, "payloads[1].label", "must be a string"),
    ({"payloads": [{"content": "a", "label": "l\n"}]}, "payloads[1].label", "control"),
    ({"payloads": [{"content": "a", "content_type": "x\r\ny: z"}]}, "payloads", "content type"),
    ({"payloads": [{"content": "a", "size": 1}]}, "payloads[1].size", "not a field"),
    ({"payloads": [{"content": "a"}] * 1000}, "payloads", "1000 payloads"),
]


@pytest.mark.requirement("001-04")
@pytest.mark.parametrize(("changed", "field", "said"), WRONG)
def test_message_that_is_wrong_is_refused_for_good(
    world: World, shop: Application, changed: dict[str, Any], field: str, said: str
) -> None:
    answer = shop.post("messages", {**order(world, "m-1"), **changed})
    assert_problem(answer, 422, said)
    assert answer.json["field"] == field
    assert not OutboundMessage.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"order"',
        b'{"tpa_id": "\xff"}',
        b'{"tpa_id": "\\ud800"}',
        b"[" * 100_000,
        b'{"tpa_id": NaN}',
        b"\xef\xbb\xbf\xfe",
    ],
)
def test_body_that_cannot_be_read(world: World, shop: Application, body: bytes) -> None:
    assert_problem(shop.post("messages", body), 400)


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml"])
def test_body_of_another_type(world: World, shop: Application, content_type: str) -> None:
    assert_problem(shop.ask("POST", "messages", b"<order/>", content_type), 415)


def test_message_that_is_too_large(world: World, shop: Application, settings: Any) -> None:
    settings.MSH_MESSAGE_LIMIT = 1000
    answer = shop.post("messages", order(world, "m-1", payloads=[{"content": "x" * 1001}]))
    assert_problem(answer, 422, "1001 bytes", "MSH_MESSAGE_LIMIT")
    answer = shop.post("messages", b" " * (1_050_000))
    assert_problem(answer, 413, "bytes")


@pytest.mark.requirement("001-14", "001-02")
def test_store_that_does_not_answer(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("msh.flows.sending.submit.insert_message", cut)
    answer = shop.post("messages", order(world, "m-1"))
    assert_problem(answer, 503, "Retry the same request")
    assert int(answer.headers["Retry-After"]) >= 1
    monkeypatch.undo()
    assert shop.post("messages", order(world, "m-1")).status == 201


def test_store_that_is_full(world: World, shop: Application, settings: Any) -> None:
    settings.MSH_DISK_PATH, settings.MSH_DISK_WATERMARK = "/", 2**62
    for answer in (shop.post("messages", order(world, "m-1")), shop.bulk([order(world, "m-1")])):
        assert_problem(answer, 503, "full")
        assert int(answer.headers["Retry-After"]) >= 1
    assert not OutboundMessage.objects.exists()


def test_partner_that_is_closed_to_applications(world: World, shop: Application) -> None:
    Partner.objects.filter(pk=world.there.pk).update(accepts=False)
    answer = shop.post("messages", order(world, "m-1"))
    assert_problem(answer, 503, code=Refusal.CLOSED)
    assert int(answer.headers["Retry-After"]) >= 1
    assert not OutboundMessage.objects.exists()


@pytest.mark.requirement("EB-197")
def test_agreement_that_has_ended(world: World, shop: Application) -> None:
    """What was submitted before its end is known; a later end counts at once."""
    shop.post("messages", order(world, "m-1"))
    Agreement.objects.update(ends=datetime(2026, 1, 1, tzinfo=UTC))
    assert shop.post("messages", order(world, "m-1")).status == 200
    answer = shop.post("messages", order(world, "m-2"))
    assert_problem(answer, 422, "has ended", code=Refusal.ENDED)
    assert answer.json["field"] == "tpa_id"
    assert OutboundMessage.objects.count() == 1

    Agreement.objects.update(ends=datetime(2999, 1, 1, tzinfo=UTC))
    assert shop.post("messages", order(world, "m-2")).status == 201


@pytest.mark.requirement("001-05", "001-20")
@pytest.mark.django_db(transaction=True)
def test_same_message_at_the_same_moment(token: Tokens) -> None:
    world, shop = make_world(), token("send", "read")
    clients = 6

    def send(_: int) -> int:
        try:
            return shop.post("messages", order(world, "m-1")).status
        finally:
            connection.close()

    with ThreadPoolExecutor(clients) as threads:
        statuses = sorted(threads.map(send, range(clients)))
    assert statuses == [200] * (clients - 1) + [201]
    assert OutboundMessage.objects.count() == 1
