"""What a partner is refused by HTTP or SOAP is an event of its link, with the reason, counted."""

import gzip
import re

import pytest
from django.db.models import Sum
from django.test import Client

from msh.models import History, InboundMessage
from partners.models import Partner
from tests.endpoint.ebms2 import Send
from tests.peer import Peer, normal
from tests.peer.ebms2 import message
from tests.peer.sending import Request, Response

pytestmark = pytest.mark.django_db(transaction=True)


def events(name: str = "RequestRefused") -> list[tuple[str, str, int]]:
    rows = History.objects.filter(event=name, subject="link", direction="in").order_by("pk")
    return list(rows.values_list("partner__name", "detail", "times"))


def posted(web: str, body: bytes, **headers: str) -> Response:
    shown = {"Authorization": "Bearer ebms2", "SOAPAction": '"ebXML"', **headers}
    return Request(web, headers=shown, body=body).send()


NO_ID = re.sub(rb"<eb:MessageId>[^<]*</eb:MessageId>", b"", message(payloads=()).body)
PACKAGE = message()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<", {"Content-Type": "text/xml"}),
        (b"", {"Content-Type": "text/xml"}),
        (NO_ID, {"Content-Type": 'text/xml; charset="UTF-8"'}),
        (b'{"a": 1}', {"Content-Type": "application/json"}),
        (b"hello", {"Content-Type": "text/plain"}),
        (b"hello", {}),
        (PACKAGE.body, {"Content-Type": f'"{PACKAGE.content_type}"'}),
        (PACKAGE.body, {"Content-Type": "multipart/related; boundary=other"}),
        (
            PACKAGE.body,
            {"Content-Type": PACKAGE.content_type.replace("text/xml", "application/soap+xml")},
        ),
        (PACKAGE.body[:-8], {"Content-Type": "multipart/related; boundary=b"}),
        (gzip.compress(PACKAGE.body), {"Content-Encoding": "gzip"}),
        (b"x" * 200_000, {"Content-Type": PACKAGE.content_type}),
    ],
)
def test_each_refusal_is_one_event_with_its_reason(
    web: str, ebms2: Partner, body: bytes, headers: dict[str, str]
) -> None:
    answer = posted(web, body, **headers)

    assert answer.status in (400, 413, 415, 500)
    assert not InboundMessage.objects.exists()
    assert events() == [("hospital", f"{answer.status}: {answer.error}", 1)]


def test_what_is_repeated_is_counted_in_one_row_a_minute(web: str, ebms2: Partner) -> None:
    """With reasons of their own, too: beyond 100 they are counted together."""
    for number in range(140):
        posted(web, b"x" * number, **{"Content-Type": f"text/x{number}"})
    assert 100 <= len(events()) <= 110
    rows = History.objects.filter(subject="link")
    assert rows.count() <= 115
    assert rows.aggregate(n=Sum("times"))["n"] == 140


def test_another_network_is_an_event_and_a_stranger_is_none(web: str, ebms2: Partner) -> None:
    Partner.objects.update(allowed_networks="192.0.2.0/24")
    assert posted(web, b"x").status == 403
    assert events() == [("hospital", "403: partner hospital is not allowed from 127.0.0.1", 1)]
    assert posted(web, b"x", Authorization="Bearer stranger").status == 401
    assert History.objects.count() == 1


def test_message_of_no_agreement_is_one_event_of_the_link(send: Send) -> None:
    assert send(message(cpa_id="cpa-none")).status == 403
    assert [name for name, *_ in events("MessageOfNoAgreement")] == ["hospital"]
    assert History.objects.count() == 1


def test_partner_that_is_known_by_network_is_counted_too(web: str, ebms2: Partner) -> None:
    Partner.objects.update(allowed_networks="127.0.0.0/8")
    ebms2.credentials.all().delete()
    answer = Request(web, headers={"Content-Type": "text/xml", "SOAPAction": '"ebXML"'}, body=b"<")
    assert answer.send().status in (400, 500)
    assert [name for name, *_ in events()] == ["hospital"]


def test_the_draft_counts_them_too(peer: Peer, partner: Partner) -> None:
    answer = peer.send(normal(sequence_number=1).but(body=b"no package"))
    assert answer.status == 400
    assert events() == [("acme", f"400: {answer.error}", 1)]
    answer = peer.send(normal(sequence_number=1, sender_uri="http://else.example/"))
    assert answer.status == 403
    assert events()[1:] == [("acme", f"403: {answer.error}", 1)]


def test_the_console_shows_them_with_the_link(
    web: str, ebms2: Partner, send: Send, admin_client: Client
) -> None:
    assert send(message()).status == 204
    posted(web, b"<", **{"Content-Type": "text/xml"})
    link = InboundMessage.objects.get().link
    page = admin_client.get(f"/admin/msh/inboundlink/{link.pk}/change/").content.decode()
    assert "A request was refused; it was no message" in page
