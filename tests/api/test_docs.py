"""docs/api.md, by copy and paste: each of its curls, in their order, with the ids of the test."""

import gzip
import json
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from msh.flows.operations.configure import IMPORT_PERMISSIONS
from msh.models import (
    BulkJob,
    ConsumerKind,
    Delivery,
    InboundConversation,
    Incident,
    OutboundMessage,
)
from partners.models import Agreement, Partner
from tests.admin.conftest import suspended_world
from tests.admin.messages.test_submit_again import failed
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.delivery.desk import Desk, consumer, receive
from tests.endpoint.ebms2 import agree, kept_refusal
from tests.exchange.machine import ROOT
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import make_sky, sky_of_five
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def curls(text: str) -> Iterator[Namespace]:
    curl = ArgumentParser()
    curl.add_argument("-H", dest="headers", action="append")
    curl.add_argument("-F", dest="form", action="append")
    curl.add_argument("-d", dest="body")
    curl.add_argument("--data-binary", dest="piped")
    curl.add_argument("url")
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        command: list[str] = []
        for word in [*shlex.split(block.replace("\\\n", " "), comments=True), "curl"]:
            if word == "curl" and command[:1] == ["curl"]:
                yield curl.parse_args(command[1:])
            command = [word] if word == "curl" else [*command, word]


def form(fields: list[str]) -> bytes:
    """The names of files are those of the document, what is in them is not."""
    sent: dict[str, list[object]] = {}
    for field in fields:
        name, _, value = field.partition("=")
        file = SimpleUploadedFile(value[1:], b"<order/>") if value.startswith("@") else value
        sent.setdefault(name, []).append(file)
    return encode_multipart(BOUNDARY, sent)


def ask(application: Application, curl: Namespace, orders: list[bytes]) -> Answer:
    assert curl.headers[0] == "$AUTH"
    headers = dict(header.split(": ") for header in curl.headers[1:])
    content_type = headers.pop("Content-Type", "")
    path, _, query = curl.url.removeprefix("$MSH/").partition("?")
    given = dict(part.split("=") for part in query.split("&") if part)
    if curl.form:
        return application.ask("POST", path, form(curl.form), MULTIPART_CONTENT)
    body = gzip.compress(b"\n".join(orders)) if curl.piped else (curl.body or "").encode()
    method = "POST" if body else "GET"
    return application.ask(method, path, body, content_type, query=given, headers=headers)


def test_curls_work(token: Tokens) -> None:
    Agreement.objects.filter(partner=make_world().there).update(tpa_id="tpa-4711")
    receive(make_world())
    Desk().settle()  # nobody takes it: an incident
    incident = Incident.objects.get()
    consumer(ConsumerKind.PULL)
    (message,) = receive(make_world())
    link = suspended_world().link
    hospital = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    take(agree(hospital, ordered=True), 2, conversation="a talk")
    conversation = InboundConversation.objects.get()
    refusal = kept_refusal()
    five = sky_of_five()  # one is held
    Partner.objects.filter(pk=five.partner.pk).update(name="acme")
    refuses = Incident.objects.get(message_id=failed(make_sky()).message_id)
    application = token(
        *("send", "read", "read_payload", "consume", "operate"),
        may=(
            *("view_outboundlink", "resume_outboundlink", "view_incident", "resolve_incident"),
            "suspend_outboundlink",
            *("view_outboundmessage", "cancel_outboundlink", "view_bulkjob", "bulk_bulkjob"),
            "correct_outboundmessage",
            *("view_delivery", "replay_delivery", "view_inboundlink", "expect_inboundlink"),
            *("view_signal", "take_back_refusal_signal"),
            *(name.partition(".")[2] for name in IMPORT_PERMISSIONS),
        ),
    )
    fields = {"tpa_id": "tpa-4711", "service_interface": "Orders", "action": "New"}
    orders = [json.dumps(fields | {"message_id": f"order-{n}"}).encode() for n in (3, 4)]
    answers: dict[str, Answer] = {}
    for curl in curls((ROOT / "docs/api.md").read_text()):
        delivery = Delivery.objects.filter(message=message).first()
        for shown, meant in {
            "inbound/17/": f"inbound/{message.pk}/",
            "deliveries/5/": f"deliveries/{delivery and delivery.pk}/",
            "deliveries/17/": f"deliveries/{delivery and delivery.pk}/",
            "conversations/in/7/": f"conversations/in/{conversation.pk}/",
            "jobs/5": f"jobs/{BulkJob.objects.values_list('pk', flat=True).first()}",
            "refusals/4/": f"refusals/{refusal.pk}/",
            "links/3": f"links/{link.pk}",
            "incidents/9/": f"incidents/{incident.pk}/",
        }.items():
            curl.url = curl.url.replace(shown, meant)
        if curl.body:
            curl.body = curl.body.replace('"incident": 9', f'"incident": {refuses.pk}')
            curl.body = curl.body.replace("90817", str(OutboundMessage.objects.latest("pk").pk))
            expected = f'"if_next_number": {conversation.next_number or 0}'
            curl.body = curl.body.replace('"if_next_number": 3', expected)
        tag = application.get(f"links/{link.pk}").headers["ETag"]
        curl.headers = [re.sub("^If-Match: .*", f"If-Match: {tag}", one) for one in curl.headers]
        answer = ask(application, curl, orders)
        assert answer.status in (200, 201), (curl, answer.content)
        answers[curl.url] = answer
    assert len(answers) >= 14
    kept = OutboundMessage.objects.filter(agreement__tpa_id="tpa-4711").order_by("pk")
    assert [one.message_id for one in kept] == ["order-1", "order-2", "order-3", "order-4"]
    assert [one["result"] for one in answers["$MSH/messages/bulk"].lines] == ["accepted"] * 2
    assert answers["$MSH/messages/order-1/payloads/1"].content == b"<order/>"
    assert Delivery.objects.get(message=message).state == "completed"
