"""What every answer of the API says beside its body."""

import gzip
import json
import logging
import re
from typing import Any

import pytest
from django.test import Client

from msh import logs
from msh.models import BulkJob, MaintenanceWindow
from tests.admin.conftest import suspended_world
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.flows.world import World

pytestmark = pytest.mark.django_db


# --- X-Request-Id -------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["messages", "messages/nothing", "nothing"])
def test_the_id_of_a_request_comes_back(shop: Application, path: str) -> None:
    answer = shop.ask("GET", path, headers={"X-Request-Id": "job-7:3/a=b"})
    assert answer.headers["X-Request-Id"] == "job-7:3/a=b"
    if answer.status != 200:
        assert answer.json["request_id"] == "job-7:3/a=b"


@pytest.mark.parametrize("shown", ["", "two words", "x" * 129, "ü", "<b>", '"quoted"'])
def test_what_is_no_id_is_replaced(shop: Application, shown: str) -> None:
    answers = [
        shop.ask("GET", "messages/nothing", headers={"X-Request-Id": shown} if shown else {})
        for _ in range(2)
    ]
    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert {answer.json["request_id"] for answer in answers} == ids


def test_lines_of_the_log_have_the_id_of_their_request(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[Any] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(logs.JsonFormatter().format(record)))

    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("msh.api.messages.prepared", broken)
    handler = Kept()
    logging.getLogger("msh").addHandler(handler)
    try:
        body = json.dumps(order(world)).encode()
        headers = {"X-Request-Id": "job-7"}
        answer = shop.ask("POST", "messages", body, "application/json", headers=headers)
        logging.getLogger("msh").error("of nobody's request")
    finally:
        logging.getLogger("msh").removeHandler(handler)

    assert_problem(answer, 500)
    of_request, of_nobody = lines
    assert (of_request["event"], of_request["request_id"]) == ("500 to an application", "job-7")
    assert "request_id" not in of_nobody


# --- RateLimit ----------------------------------------------------------------------------------
def test_a_token_is_told_what_is_left_of_its_rate(token: Tokens, settings: Any) -> None:
    settings.MSH_API_RATE = "3/hour"
    application = token("read")
    answers = [application.get("messages") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"token";q=3;w=3600'}
    said = [
        re.fullmatch(r'"token";r=(\d+);t=(\d+)', answer.headers["RateLimit"]) for answer in answers
    ]
    assert [found and int(found[1]) for found in said] == [2, 1, 0, 0]
    assert all(found and 0 < int(found[2]) <= 3600 for found in said)


def test_without_a_rate_nothing_is_said_of_it(token: Tokens, settings: Any) -> None:
    settings.MSH_API_RATE = ""
    assert "RateLimit" not in token("read").get("messages").headers


# --- gzip ---------------------------------------------------------------------------------------
def test_json_and_lines_are_compressed_for_who_accepts_it(world: World, shop: Application) -> None:
    accepts = {"Accept-Encoding": "gzip"}
    lines = b"\n".join(json.dumps(order(world, f"m-{n}")).encode() for n in range(20))
    kind = "application/x-ndjson"
    bulk = shop.ask("POST", "messages/bulk", lines, kind, headers=accepts)
    assert bulk.headers["Content-Encoding"] == "gzip"
    assert len(gzip.decompress(bulk.content).splitlines()) == 20

    packed = shop.ask("GET", "messages", headers=accepts)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    plain = shop.get("messages")
    assert "Content-Encoding" not in plain.headers
    assert json.loads(gzip.decompress(packed.content)) == plain.json


def test_bytes_of_a_payload_are_not_compressed(world: World, shop: Application) -> None:
    text = "<a/>" * 1000
    payload = {"content": text, "content_type": "text/xml"}
    shop.post("messages", order(world, "m-1", payloads=[payload]))
    headers = {"Accept-Encoding": "gzip"}
    answer = shop.ask("GET", "messages/m-1/payloads/1", headers=headers)
    assert answer.content == text.encode()


# --- Location -----------------------------------------------------------------------------------
@pytest.mark.parametrize("message_id", ["m-1", "a/b?c#d%2F ü", "bulk", "x/payloads/1"])
def test_a_new_message_has_an_address(world: World, shop: Application, message_id: str) -> None:
    posted = shop.post("messages", order(world, message_id))
    assert posted.status == 201
    path, _, query = posted.headers["Location"].removeprefix("/api/v1/").partition("?")
    name, partner = query.split("=")
    found = shop.get(path, **{name: partner})
    assert (found.status, found.json["id"]) == (200, posted.json["id"])
    again = shop.post("messages", order(world, message_id))
    assert (again.status, "Location" in again.headers) == (200, False)


def test_what_operators_begin_has_an_address(token: Tokens) -> None:
    world = suspended_world(queued=2)
    operator = token(
        "operate",
        may=(
            *("view_outboundlink", "suspend_outboundlink", "resume_outboundlink"),
            *("view_outboundmessage", "cancel_outboundlink", "view_bulkjob", "bulk_bulkjob"),
            "view_maintenancewindow",
        ),
    )
    window = {"reason": "they move", "ends_at": "2099-01-01T00:00:00Z"}
    window["starts_at"] = "2098-12-31T00:00:00Z"
    planned = operator.post(f"links/{world.link.pk}/plan-maintenance", window)
    begun = operator.post(f"links/{world.link.pk}/cancel-queue", {"reason": "wrong prices"})
    for answer, key in (
        (planned, MaintenanceWindow.objects.get().pk),
        (begun, BulkJob.objects.get().pk),
    ):
        assert (answer.status, answer.json["id"]) == (201, key)
        path = answer.headers["Location"].removeprefix("/api/v1/")
        assert operator.get(path).json["id"] == key


# --- before anybody is asked --------------------------------------------------------------------
def test_the_page_of_the_reference_has_an_id_too() -> None:
    assert Client().get("/api/schema").headers["X-Request-Id"]
