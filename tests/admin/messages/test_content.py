"""Headers and payloads of messages: shown as text, downloaded as they are, never executed."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.messages.content import TEXT_LIMIT, file_name
from msh.flows.sending.submit import submit
from msh.models import (
    Attempt,
    History,
    InboundMessage,
    OutboundMessage,
    OutboundPayload,
)
from msh.protocol.message import Payload
from tests.admin.conftest import client_of, path_of
from tests.flows.world import LOST, World, make_world

pytestmark = pytest.mark.django_db

SCRIPT = b"<order><note>&lt;/pre&gt;</note><script>alert(1)</script></order>"

RIGHT_TO_LEFT = "invoice\u202efdp.exe"


def exchanged(*payloads: Payload) -> World:
    """A message that was sent and received."""
    world = make_world()
    submit(world.agreement, "Orders", "New", payloads)
    world.settle()
    return world


def both() -> tuple[OutboundMessage, InboundMessage]:
    return OutboundMessage.objects.get(), InboundMessage.objects.get()


def test_both_sides_show_the_same_payload_indented(reader: Client) -> None:
    exchanged(Payload(b"<a><b>1</b><!-- c --></a>", label="order.xml"))

    for message in both():
        shown = reader.get(path_of(message, "payload", 1))
        assert shown.context["text"] == "<a>\n  <b>1</b>\n  <!-- c -->\n</a>\n"
        assert hashlib.sha256(b"<a><b>1</b><!-- c --></a>").hexdigest() in shown.content.decode()


@pytest.mark.parametrize("content_type", ["application/xml", "text/html", "image/svg+xml"])
def test_a_payload_with_a_script_is_text(reader: Client, content_type: str) -> None:
    exchanged(Payload(SCRIPT, content_type=content_type, label="<script>alert(2)</script>"))

    for message in both():
        change = reverse(f"admin:msh_{message._meta.model_name}_change", args=[message.pk])
        for where in (path_of(message, "payload", 1), path_of(message, "header"), change):
            assert b"<script>alert" not in reader.get(where).content, where
        assert (
            "&lt;script&gt;alert(1)" in reader.get(path_of(message, "payload", 1)).content.decode()
        )


def test_download_is_the_exact_bytes_as_an_attachment(reader: Client) -> None:
    exchanged(Payload(SCRIPT, content_type="text/html", label="page.html"))

    for message in both():
        response = reader.get(path_of(message, "payload_bytes", 1))
        assert response.content == SCRIPT
        assert response["Content-Type"] == "application/octet-stream"
        assert response["Content-Disposition"] == 'attachment; filename="page.html"'
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Security-Policy"].startswith("sandbox")


def test_five_megabytes_are_cut_when_shown_and_whole_when_downloaded(reader: Client) -> None:
    content = ("<a>" + "ä" * (5 * 1024 * 1024 // 2) + "</a>").encode()
    exchanged(Payload(content))

    for message in both():
        shown = reader.get(path_of(message, "payload", 1))
        assert len(shown.content) < TEXT_LIMIT + 64 * 1024
        assert "Only the first 256.0" in shown.content.decode()
        assert reader.get(path_of(message, "payload_bytes", 1)).content == content


def test_binary_is_not_shown(reader: Client) -> None:
    content = bytes(range(256))
    exchanged(Payload(content, content_type="image/png", label="logo.png"))

    for message in both():
        shown = reader.get(path_of(message, "payload", 1))
        assert shown.context["text"] is None
        assert "Binary content" in shown.content.decode()
        assert reader.get(path_of(message, "payload_bytes", 1)).content == content


@pytest.mark.parametrize(
    ("content_type", "content", "text"),
    [
        ("text/plain", "grüß".encode(), "grüß"),
        ("text/plain; charset=iso-8859-1", "grüß".encode("latin-1"), "grüß"),
        ("text/plain; charset=no-such", b"x", None),
        ("text/plain; charset=zip", b"x", None),
        ("text/plain", b"a\0b", None),
        ("text/plain", b"\xff\xfe", None),
        ("application/xml", b"<a><b></a>", "<a><b></a>"),
        ("application/xml", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", None),
        ("application/xml", b"<a" + b"><a" * 150 + b">" + b"</a>" * 151, None),
        ("text/plain", "a\u202eb\u2066c\x1b[2J".encode(), "a\\u202eb\\u2066c\\u001b[2J"),
    ],
)
def test_text_content_is_shown(
    reader: Client, content_type: str, content: bytes, text: str | None
) -> None:
    exchanged(Payload(content, content_type=content_type))
    as_it_is = content.decode() if content.startswith((b"<!", b"<a><a")) else text

    for message in both():
        shown = reader.get(path_of(message, "payload", 1))
        assert shown.context["text"] == as_it_is


def test_direction_marks_in_names_are_escaped(reader: Client) -> None:
    exchanged(Payload(b"x", label="plain"))
    for message in both():
        message.payloads.update(label=RIGHT_TO_LEFT, description="\u202eabc")
        change = reverse(f"admin:msh_{message._meta.model_name}_change", args=[message.pk])
        for where in (change, path_of(message, "payload", 1)):
            text = reader.get(where).content.decode()
            assert "\u202e" not in text, where
            assert "invoice\\u202efdp.exe" in text
        disposition = reader.get(path_of(message, "payload_bytes", 1))["Content-Disposition"]
        assert disposition == 'attachment; filename="invoice_fdp.exe"'


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\order.xml", "order.xml"),
        ('a"; filename="b.exe', "a__ filename__b.exe"),
        ("a\r\nSet-Cookie: x", "a__Set-Cookie_ x"),
        (".htaccess", "htaccess"),
        ("\u202e", ""),
        ("Auftrag Größe.xml", "Auftrag Größe.xml"),
        ("طلب.xml", "طلب.xml"),
        ("x" * 300 + ".xml", "x" * 96 + ".xml"),
    ],
)
def test_the_name_of_a_download_is_harmless(label: str, name: str) -> None:
    assert file_name(label) == name


def test_header_is_shown_as_sent_and_as_received(reader: Client) -> None:
    exchanged(Payload(b"<order/>"))
    sent, received = both()

    texts = [reader.get(path_of(message, "header")).context["text"] for message in (sent, received)]
    assert "<SequenceNumber>1</SequenceNumber>\n" in texts[0]
    assert texts[0] == texts[1]
    sent_bytes, received_bytes = (
        reader.get(path_of(message, "header_bytes")).content for message in (sent, received)
    )
    assert sent_bytes == received_bytes == bytes(received.header)


@pytest.mark.requirement("000-027")
def test_the_bytes_of_every_attempt_and_their_hash(world: World, reader: Client) -> None:
    message, job = world.start()
    world.end(job, LOST)

    response = reader.get(path_of(message, "body_bytes"))

    assert response.content == job.body
    change = reader.get(reverse("admin:msh_outboundmessage_change", args=[message.pk]))
    (*_, attempts) = change.context["tables"]
    assert hashlib.sha256(job.body).hexdigest() in str(attempts.rows[0][-1])


def test_attempts_under_another_number_have_no_bytes(world: World, reader: Client) -> None:
    message, job = world.start()
    world.end(job, LOST)
    Attempt.objects.update(claimed_at=timezone.now() - timedelta(days=1))

    change = reader.get(reverse("admin:msh_outboundmessage_change", args=[message.pk]))

    (*_, attempts) = change.context["tables"]
    assert attempts.rows[0][-1] == "composed again since, under another number"


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda parts: parts.all().delete(), "its payloads were removed"),
        (lambda parts: parts.update(wire=b"other"), "the stored payloads have changed"),
    ],
)
def test_changed_bytes_are_not_downloaded(reader: Client, break_it: Any, why: str) -> None:
    exchanged(Payload(b"<order/>"))
    sent, _ = both()
    break_it(OutboundPayload.objects)

    response = reader.get(path_of(sent, "body_bytes"), follow=True)

    assert response.redirect_chain
    assert why in response.content.decode()


def test_removed_content_is_reported(reader: Client) -> None:
    message = make_world().submit()

    for where, why in (
        (path_of(message, "header"), "composed when the message is first sent"),
        (path_of(message, "body_bytes"), "composed when the message is first sent"),
        (path_of(message, "payload", 2), "There is no payload 2"),
    ):
        assert why in reader.get(where, follow=True).content.decode()
    nowhere = reverse("admin:msh_outboundmessage_header", args=[message.pk + 1])
    assert reader.get(nowhere).status_code == 404


def test_payloads_need_their_own_permission() -> None:
    exchanged(Payload(b"<order/>", label="order.xml"))
    viewer = client_of("vera", "view_outboundmessage", "view_inboundmessage")
    only_one = client_of("otto", "view_outboundmessage", "view_payload_inboundmessage")

    for client in (viewer, only_one):
        for message in both():
            change = reverse(f"admin:msh_{message._meta.model_name}_change", args=[message.pk])
            for name in ("payload", "payload_bytes"):
                assert client.get(path_of(message, name, 1)).status_code == 403, name
            text = client.get(change).content.decode()
            assert path_of(message, "payload", 1) not in text
    sent, received = both()
    assert viewer.get(path_of(sent, "body_bytes")).status_code == 403
    assert viewer.get(path_of(sent, "header")).status_code == 200
    assert only_one.get(path_of(received, "header")).status_code == 403


def test_the_body_of_a_message_from_a_partner_has_no_address(reader: Client) -> None:
    """It is not kept whole: there was an error page. Django takes the address for that of a row."""
    exchanged(Payload(b"<order/>"))
    _, received = both()
    below = path_of(received).removesuffix("change/")

    assert reader.get(f"{below}header/bytes/").status_code == 200
    assert reader.get(f"{below}body/bytes/").status_code == 302


def test_strangers_are_sent_to_the_log_in(client: Client) -> None:
    exchanged(Payload(b"<order/>"))
    sent, _ = both()

    assert client.get(path_of(sent, "payload_bytes", 1)).status_code == 302


def test_content_pages_refuse_post(reader: Client) -> None:
    exchanged(Payload(b"<order/>"))
    sent, _ = both()
    before = History.objects.count()

    for name, which in (("payload", [1]), ("payload_bytes", [1]), ("header", [])):
        assert reader.post(path_of(sent, name, *which)).status_code == 405
    assert History.objects.count() == before


def test_the_page_of_a_message_leads_to_its_header(reader: Client) -> None:
    exchanged(Payload(b"<a/>"))

    for message in both():
        change = reverse(f"admin:msh_{message._meta.model_name}_change", args=[message.pk])
        text = reader.get(change).content.decode()
        assert f'<a href="{path_of(message, "header")}" class="text-link">view</a>' in text
        assert "ebXMLHeader" not in text
