"""Consumers over HTTP: what is posted, and what each answer makes of the message."""

from email.parser import BytesParser
from email.policy import HTTP as HTTP_POLICY
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import OperationalError

from msh import wire
from msh.flows.delivery import consumer_http
from msh.flows.send_budget import BYTES_AT_ONCE
from msh.flows.sending.submit import submit
from msh.models import ConsumerKind, Delivery, InboundMessage, InboundPayload, Incident
from msh.protocol.message import Payload
from msh.store.sending.message_sql import LARGE
from msh.transport.job import Job
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

HTTP = ConsumerKind.HTTP


@pytest.mark.requirement("002-01", "002-03", "002-04", "004-05", "004-11")
def test_the_payload_is_posted_once_with_the_message_id_as_key() -> None:
    made = consumer(HTTP)
    made.show("Bearer secret")
    made.save()
    world = make_world()
    (message,) = receive(world)
    desk = Desk()

    desk.poll()

    kept = delivery_of(message)
    assert (kept.state, kept.attempt, kept.ended_at) == ("processing", 1, None)
    job = desk.answer(201, external_id="SO-0815")
    headers = dict(job.headers)
    assert headers["Idempotency-Key"] == headers["X-MSH-Message-Id"] == message.message_id
    assert headers["X-MSH-Partner"] == world.here.name
    assert headers["X-MSH-Action"] == "New"
    assert (job.url, job.content_type, job.body) == (made.url, "application/xml", b"<order/>")
    assert job.authorization == "Bearer secret"
    assert "secret" not in made.secret
    ended = delivery_of(message)
    assert (ended.state, ended.external_id) == ("completed", "SO-0815")
    assert ended.started_at == kept.started_at, "both entries carry the same start"
    assert state_of(message) == ("delivered", "completed")
    assert not desk.poll()


@pytest.mark.requirement("EB-031", "EB-034")
def test_type_of_the_service_and_roles_are_headers_if_the_message_has_them() -> None:
    consumer(HTTP)
    world = make_world()
    receive(world)
    desk = Desk()
    desk.poll()
    names = ("X-MSH-Service-Type", "X-MSH-From-Role", "X-MSH-To-Role")
    assert {*names}.isdisjoint(dict(desk.answer(201).headers))

    (message,) = receive(world)
    fields = {"service_type": "string", "from_role": "Buyer", "to_role": "urn:Shop"}
    InboundMessage.objects.filter(pk=message.pk).update(**fields)
    desk.poll()
    headers = dict(desk.take_job().headers)
    assert [headers[name] for name in names] == ["string", "Buyer", "urn:Shop"]


def test_several_payloads_are_a_multipart_body() -> None:
    consumer(HTTP)
    world = make_world()
    payloads = [Payload(b"<a/>", content_id="a@x"), Payload(b"\x00\xff", "image/png", "b@x")]
    submit(world.agreement, "Orders", "New", payloads)
    world.settle()
    desk = Desk()
    desk.poll()
    job = desk.take_job()
    assert job.content_type.startswith("multipart/mixed; boundary=")
    assert b"<a/>" in job.body
    assert b"\x00\xff" in job.body


def test_large_payloads_wait_for_memory_and_small_ones_do_not() -> None:
    consumer(HTTP, attempts=9, retry_interval=0)
    for text in ("x" * LARGE, "y" * LARGE, "small"):
        world = make_world()
        world.submit(text)
        world.settle()
    desk = Desk()

    desk.transmitted.held = BYTES_AT_ONCE - 1
    desk.poll()
    assert sorted(len(job.body) >= LARGE for job in desk.transmitted.jobs) == [False, True]
    (large,) = [job for job in desk.transmitted.jobs if len(job.body) >= LARGE]
    desk.transmitted.jobs = [large]
    desk.answer(503)

    desk.transmitted.held = BYTES_AT_ONCE
    assert not desk.poll(), "neither the new one nor the one that failed"
    desk.transmitted.held = 0
    desk.poll()
    assert {job.body[:1] for job in desk.transmitted.jobs} == {b"x", b"y"}


@pytest.mark.requirement("001-10", "004-06", "004-07", "001-16")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 302, None])
def test_no_answer_and_system_errors_are_tried_again(status: int | None) -> None:
    consumer(HTTP, retry_interval=0)
    first, second = receive(make_world(), 2)
    desk = Desk()
    desk.poll()

    desk.answer(status, "no luck")

    assert state_of(first) == ("accepted", "failed")
    assert ("redirects are not followed" in delivery_of(first).detail) == (status == 302)
    desk.poll()
    again = desk.answer(200)
    assert dict(again.headers)["Idempotency-Key"] == first.message_id
    assert dict(again.headers)["X-MSH-Attempt"] == "2"
    desk.poll()
    assert dict(desk.answer(200).headers)["Idempotency-Key"] == second.message_id


@pytest.mark.requirement("001-04", "001-09")
@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_any_other_4xx_is_a_rejection(status: int) -> None:
    consumer(HTTP)
    first, second = receive(make_world(), 2)
    desk = Desk()
    desk.poll()

    desk.answer(status, f"{status}: no such customer")

    assert state_of(first) == ("rejected", "rejected")
    assert Incident.objects.get().kind == "delivery_rejected"
    desk.poll()
    assert dict(desk.answer(200).headers)["Idempotency-Key"] == second.message_id


@pytest.mark.requirement("002-11")
@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("a b+c", "a b+c"),
        ("50% off", "50% off"),
        ("Größe 5%", "Gr%C3%B6%C3%9Fe 5%25"),
        ("a\r\nSet-Cookie: b", "a%0D%0ASet-Cookie: b"),
    ],
)
def test_header_values_cannot_break_out(value: str, sent: str) -> None:
    assert wire.percent_encoded(value) == sent


@pytest.mark.requirement("002-11", "004-11")
def test_the_longest_id_travels_whole() -> None:
    consumer(HTTP)
    world = make_world()
    message = world.submit(message_id="\N{SNOWMAN}" * 255)
    world.settle()
    desk = Desk()
    desk.poll()
    job = desk.answer(200, external_id="x" * 300)
    assert unquote(dict(job.headers)["Idempotency-Key"]) == message.message_id
    assert Delivery.objects.get().external_id == "x" * 300


ODD = 'application/pdf; name="Bestell\u00fcbersicht.pdf"'
ODD_IN_ASCII = "application/pdf; name*=UTF-8''Bestell%C3%BCbersicht.pdf"


def test_payloads_with_odd_names_are_posted_in_ascii_names() -> None:
    """The partner's message was accepted with them, so it has to reach the consumer."""
    consumer(HTTP)
    world = make_world()
    payloads = [Payload(b"<a/>", content_id="a@x"), Payload(b"\x00\xff", "image/png", "b@x")]
    submit(world.agreement, "Orders", "New", payloads)
    world.settle()
    InboundPayload.objects.filter(position=1).update(
        content_type=ODD, content_id="gr\u00fc\u00df <1>"
    )
    InboundPayload.objects.filter(position=2).update(content_type="nonsense", content_id="x" * 900)
    desk = Desk()
    desk.poll()

    job = desk.take_job()

    head = f"Content-Type: {job.content_type}\r\n\r\n".encode()
    one, two = BytesParser(policy=HTTP_POLICY).parsebytes(head + job.body).iter_parts()
    assert one["Content-Type"].params["name"] == "Bestell\u00fcbersicht.pdf"
    assert one["Content-ID"] == "<gr%C3%BC%C3%9F%20%3C1%3E>"
    assert unquote(one["X-MSH-Content-Type"]) == ODD
    assert one.get_payload(decode=True) == b"<a/>"
    assert two["Content-Type"] == "application/octet-stream"
    assert two["X-MSH-Content-Type"] == "nonsense"
    assert two["Content-ID"] == f"<{'x' * 900}>"
    assert b"\x00\xff" in job.body


def test_one_payload_with_an_odd_type_is_posted_under_an_ascii_one() -> None:
    consumer(HTTP)
    receive(make_world())
    InboundPayload.objects.update(content_type=ODD)
    desk = Desk()
    desk.poll()

    job = desk.take_job()

    assert (job.content_type, job.body) == (ODD_IN_ASCII, b"<order/>")
    assert unquote(dict(job.headers)["X-MSH-Content-Type"]) == ODD


def test_poll_claims_no_more_than_there_is_room_for() -> None:
    consumer(HTTP)
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        receive(world)
    desk = Desk()
    desk.transmitted.slots = 2
    desk.settle()
    assert (len(desk.transmitted.jobs), Delivery.objects.count()) == (2, 2)


def test_session_that_is_lost_after_the_claim_spends_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer(HTTP, attempts=1)
    (message,) = receive(make_world())
    desk, read_job = Desk(), consumer_http._job
    lost: list[str] = []

    def job_of_the_second_session(*arguments: Any) -> Job:
        if not lost:
            lost.append("it")
            raise OperationalError("server closed the connection unexpectedly")
        return read_job(*arguments)

    monkeypatch.setattr(consumer_http, "_job", job_of_the_second_session)
    desk.poll()
    assert desk.answer(200)
    assert state_of(message) == ("delivered", "completed")
