"""What a partner is refused by HTTP or SOAP is an event of its link, with the reason as a code and
in words, counted."""

import gzip
import re
from html import unescape

import pytest
from django.db.models import Sum
from django.test import Client

from msh.flows.operations.inspection.causes import REFUSALS
from msh.models import History, InboundMessage
from msh.protocol.reason import Refusal
from partners.models import Partner
from tests.endpoint.ebms2 import Send
from tests.peer import Peer, normal
from tests.peer.ebms2 import message
from tests.peer.sending import Request, Response

pytestmark = pytest.mark.django_db(transaction=True)


def events(name: str = "RequestRefused") -> list[tuple[str, str, str, int]]:
    rows = History.objects.filter(event=name, subject="link", direction="in").order_by("pk")
    return list(rows.values_list("partner__name", "code", "detail", "times"))


def posted(web: str, body: bytes, **headers: str) -> Response:
    shown = {"Authorization": "Bearer ebms2", "SOAPAction": '"ebXML"', **headers}
    return Request(web, headers=shown, body=body).send()


NO_ID = re.sub(rb"<eb:MessageId>[^<]*</eb:MessageId>", b"", message(payloads=()).body)
PACKAGE = message()


@pytest.mark.parametrize(
    ("code", "body", "headers"),
    [
        (Refusal.DOCUMENT, b"<", {"Content-Type": "text/xml"}),
        (Refusal.DOCUMENT, b"", {"Content-Type": "text/xml"}),
        (Refusal.DOCUMENT, NO_ID, {"Content-Type": 'text/xml; charset="UTF-8"'}),
        (Refusal.MEDIA_TYPE, b'{"a": 1}', {"Content-Type": "application/json"}),
        (Refusal.MEDIA_TYPE, b"hello", {"Content-Type": "text/plain"}),
        (Refusal.MEDIA_TYPE, b"hello", {}),
        (Refusal.MEDIA_TYPE, PACKAGE.body, {"Content-Type": f'"{PACKAGE.content_type}"'}),
        (Refusal.PACKAGE, PACKAGE.body, {"Content-Type": "multipart/related; boundary=other"}),
        (
            Refusal.MEDIA_TYPE,
            PACKAGE.body,
            {"Content-Type": PACKAGE.content_type.replace("text/xml", "application/soap+xml")},
        ),
        (Refusal.PACKAGE, PACKAGE.body[:-8], {"Content-Type": "multipart/related; boundary=b"}),
        (Refusal.REQUEST, gzip.compress(PACKAGE.body), {"Content-Encoding": "gzip"}),
        (Refusal.REQUEST, PACKAGE.body, {"Content-Transfer-Encoding": "base64"}),
        (Refusal.TOO_LARGE, b"x" * 200_000, {"Content-Type": PACKAGE.content_type}),
    ],
)
def test_each_refusal_is_one_event_with_its_reason(
    web: str, ebms2: Partner, code: Refusal, body: bytes, headers: dict[str, str]
) -> None:
    answer = posted(web, body, **headers)

    assert answer.status in (400, 413, 415, 500)
    assert not InboundMessage.objects.exists()
    assert events() == [("hospital", code, f"{answer.status}: {answer.error}", 1)]


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
    assert [(name, code) for name, code, *_ in events()] == [("hospital", Refusal.NETWORK)]
    assert posted(web, b"x", Authorization="Bearer stranger").status == 401
    assert History.objects.count() == 1


def test_message_of_no_agreement_is_one_event_of_the_link(send: Send) -> None:
    assert send(message(cpa_id="cpa-none")).status == 403
    (event,) = events("MessageOfNoAgreement")
    assert event[:2] == ("hospital", Refusal.AGREEMENT)
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
    assert events() == [("acme", Refusal.PACKAGE, f"400: {answer.error}", 1)]
    answer = peer.send(normal(sequence_number=1, sender_uri="http://else.example/"))
    assert answer.status == 403
    assert events()[1:] == [("acme", Refusal.AGREEMENT, f"403: {answer.error}", 1)]


def test_the_console_shows_them_with_the_link(
    web: str, ebms2: Partner, send: Send, admin_client: Client
) -> None:
    assert send(message()).status == 204
    posted(web, b"<", **{"Content-Type": "text/xml"})
    link = InboundMessage.objects.get().link
    row = History.objects.get(event="RequestRefused")
    cause = REFUSALS[Refusal.DOCUMENT]

    page = admin_client.get(f"/admin/msh/inboundlink/{link.pk}/change/").content.decode()
    assert f"A request was refused; it was no message: {cause.title}" in page
    own = f"/admin/msh/history/{row.pk}/change/"
    assert own in page
    assert cause.advice in unescape(admin_client.get(own).content.decode())


@pytest.mark.parametrize("code", [Refusal.DOCUMENT, Refusal.NETWORK])
def test_the_history_finds_refusals_by_their_reason(
    web: str, ebms2: Partner, admin_client: Client, code: Refusal
) -> None:
    posted(web, b"<", **{"Content-Type": "text/xml"})
    Partner.objects.update(allowed_networks="192.0.2.0/24")
    posted(web, b"<", **{"Content-Type": "text/xml"})

    page = admin_client.get("/admin/msh/history/", {"refusal": code})

    assert [row.code for row in page.context["cl"].result_list] == [code]
