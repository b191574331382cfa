"""Test connection: TCP, TLS and link status of a partner's address; nothing is sent."""

import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode
from pytest_django import Settings

from msh.flows.operations.inspection import connection
from msh.flows.operations.inspection.connection import MOST, Place, check, places
from msh.flows.receiving import link_status, questions
from msh.models import Attempt, History, OutboundLink
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms.vocabulary import SERVICE
from msh.transport.way import Step
from partners.models import Agreement, Channel, Partner
from tests.admin.conftest import client_of, url
from tests.certificates import write_certificate
from tests.flows.flying import Sky, make_sky
from tests.flows.world import World, make_world
from tests.peer import Peer, status
from tests.peer.answers import Answer, silence
from tests.peer.ebms2 import Envelope, pong
from tests.peer.mailbox import Mailbox
from tests.peer.recording import Received

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Client:
    return client_of("ann", "view_agreement", "view_partner", "send_now_outboundlink")


def connection_page(agreement: Agreement) -> str:
    return reverse("admin:partners_agreement_connection", args=[agreement.pk])


def partner_at(address: str) -> Partner:
    partner = make_world().there
    partner.address = address
    partner.save()
    return partner


def steps_to(partner: Partner) -> list[Step]:
    ((place, steps),) = check(partner.agreements.get())
    assert place == Place(partner.destination)
    return steps


def tried(partner: Partner) -> list[tuple[str, bool | None]]:
    return outcomes(steps_to(partner))


def outcomes(steps: list[Step]) -> list[tuple[str, bool | None]]:
    return [(step.name, step.went) for step in steps]


def test_open_connection_is_reported_and_nothing_is_sent() -> None:
    with Peer() as peer:
        peer.always(status(404))
        partner = partner_at(peer.address)

        assert tried(partner) == [("TCP", True), ("HTTP", None)]

        (asked,) = peer.received
        assert (asked.method, asked.body) == ("GET", b"")
    assert not Attempt.objects.exists()
    assert not History.objects.exists()


@pytest.mark.parametrize("code", [401, 403])
def test_credentials_that_are_refused_are_a_result(code: int) -> None:
    with Peer() as peer:
        peer.always(status(code))
        *_, last = steps_to(partner_at(peer.address))
    assert (last.name, last.went) == ("HTTP", False)
    assert "it refuses our credentials" in last.detail


def test_credentials_that_are_accepted_now_are_a_result(world: World) -> None:
    _, job = world.start()
    refused = AttemptResult(AttemptOutcome.REFUSED, status=401, detail="401 Unauthorized")
    world.end(job, refused)
    with Peer() as peer:
        peer.always(status(204))
        world.there.address = peer.address
        world.there.save()
        *_, last = steps_to(world.there)
    assert (last.name, last.went) == ("HTTP", True)
    assert "The last copy was answered 401 Unauthorized" in last.detail


def test_a_server_that_takes_the_request_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_status, "DEADLINE", 0.2)
    with Peer() as peer:
        peer.always(silence())
        *_, last = steps_to(partner_at(peer.address))
    assert (last.name, last.went) == ("HTTP", False)
    assert last.detail == (
        "The connection works and the server took the request, but there was no answer within"
        " 0.2 s. Ask the partner's operator whether its MSH is running."
    )


def test_a_test_leads_back_where_it_came_from(operator: Client) -> None:
    agreement = partner_at("http://127.0.0.1:9/").agreements.get()
    page = connection_page(agreement)
    for back, shown in (
        ("/admin/msh/outboundlink/7/change/", "/admin/msh/outboundlink/7/change/"),
        ("//thief.example/", reverse("admin:partners_agreement_change", args=[agreement.pk])),
    ):
        answer = operator.post(f"{page}?{urlencode({'back': back})}").content.decode()
        assert f'<a href="{shown}" class="text-link">Back</a>' in answer
        assert "command line" not in answer


def test_the_page_of_a_link_tests_at_once(world: World) -> None:
    _, job = world.start()
    world.end(job, AttemptResult(AttemptOutcome.REFUSED, status=404, detail="404 Not Found"))
    where = url(OutboundLink, "change", world.link.pk)
    client = client_of("sue", "view_outboundlink", "view_agreement", "send_now_outboundlink")
    page = client.get(where).content.decode()
    target = f"{connection_page(world.agreement)}?{urlencode({'back': where})}"
    assert f'<form method="post" action="{target}">' in page
    tested = client.get(target).content.decode()
    assert reverse("partner_page", args=[world.there.pk]) in tested, "whose address it is"


def test_refused_connection_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    (step,) = steps_to(partner_at(f"http://127.0.0.1:{port}/"))

    assert (step.name, step.went) == ("TCP", False)
    assert step.detail == "Connection refused"


def answers_pings(sky: Sky) -> Callable[[Received], Answer]:
    """What the MSH of the partner answers."""

    def answer(request: Received) -> Answer:
        asked = Envelope(request.body).text("eb:MessageData/eb:MessageId")
        parties = {"from_party": "them", "to_party": "us", "party_type": "urn:party"}
        out = pong(asked, cpa_id=sky.agreement.tpa_id, **parties)
        return status(200, body=out.body, headers={"Content-Type": out.content_type})

    return answer


@pytest.mark.requirement("EB-142")
def test_ping_is_asked_of_a_partner_whose_dialect_has_it(operator: Client) -> None:
    sky = make_sky(sync_reply="signalsOnly")
    with Peer() as peer:
        sky.partner.address = peer.address
        sky.partner.save()
        peer.always(answers_pings(sky))
        page = connection_page(sky.agreement)
        assert "then a Ping." in operator.get(page).content.decode()

        shown = operator.post(page).content.decode()

    assert "Pong after" in shown
    assert "link status" not in shown


def lead(sky: Sky, action: str, address: str, service: str = "urn:orders") -> None:
    about = {"direction": "out", "service": service, "action": action}
    Channel.objects.create(agreement=sky.agreement, address=address, **about)


@pytest.mark.requirement("EB-201")
def test_each_address_to_which_a_channel_leads_is_tested(operator: Client) -> None:
    sky = make_sky(sync_reply="signalsOnly")
    with Peer() as peer, Peer() as other, socket.create_server(("127.0.0.1", 0)) as gone:
        nowhere = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        gone.close()
        sky.partner.address = peer.address
        sky.partner.save()
        lead(sky, "New", other.address)
        lead(sky, "Change", other.address)
        lead(sky, "Hint", nowhere)
        lead(sky, "Same", peer.address)
        for one in (peer, other):
            one.always(answers_pings(sky))

        found = check(Agreement.objects.get())
        assert [(place, outcomes(steps)) for place, steps in found] == [
            (Place(peer.address), [("TCP", True), ("Ping", True)]),
            (
                Place(other.address, ("urn:orders Change", "urn:orders New")),
                [("TCP", True), ("Ping", True)],
            ),
            (Place(nowhere, ("urn:orders Hint",)), [("TCP", False)]),
        ]

        page = connection_page(sky.agreement)
        described = operator.get(page).content.decode()
        shown = operator.post(page).content.decode()
    for address in (other.address, nowhere):
        assert address in described
        assert f"Test results of {address}" in shown
    assert "urn:orders Change" in described
    assert "Connection refused" in shown


@pytest.mark.requirement("EB-201")
def test_an_address_to_which_no_pings_go_need_not_answer_them() -> None:
    """Nor does that of the partner, if Pings have a channel of their own."""
    sky = make_sky(sync_reply="signalsOnly")
    with Peer() as peer, Peer() as pings:
        sky.partner.address = peer.address
        sky.partner.save()
        lead(sky, "Ping", pings.address, SERVICE)
        peer.always(status(404))
        pings.always(status(404))
        found = check(Agreement.objects.get())
    assert [(place.channels, outcomes(steps)) for place, steps in found] == [
        ((), [("TCP", True), ("Ping", None)]),
        (("Ping",), [("TCP", True), ("Ping", False)]),
    ]
    assert "need not answer them" in found[0][1][-1].detail


@pytest.mark.requirement("EB-201")
def test_the_tests_of_an_agreement_are_bounded_in_number_and_time(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "PATIENCE_OF_A_PAGE", 2)
    sky = make_sky(sync_reply="signalsOnly")
    with Peer() as peer:
        peer.always(silence())
        sky.partner.address = f"{peer.address}/0"
        sky.partner.save()
        for number in range(1, MOST + 3):
            lead(sky, f"Act{number}", f"{peer.address}/{number}")
        assert len(places(sky.agreement)) == MOST + 3
        assert (
            f"{peer.address}/{MOST + 2}"
            in operator.get(connection_page(sky.agreement)).content.decode()
        )

        monkeypatch.setattr(connection, "MOST", 3)
        began = time.monotonic()
        found = check(Agreement.objects.get())
        took = time.monotonic() - began

    assert len(found) == 3
    details = [steps[-1].detail for _, steps in found]
    assert all("within 1 s" in one for one in details), details
    assert took < 3 * questions.PATIENCE_OF_A_PAGE


def test_no_tls_where_tls_is_agreed() -> None:
    with Peer() as peer:
        address = peer.address.replace("http:", "https:")

        assert tried(partner_at(address)) == [("TCP", True), ("TLS", False)]


def test_tls_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with Peer(tls=tls) as peer:
        peer.always(status(404))
        untrusted = steps_to(partner_at(peer.address))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = steps_to(partner_at(peer.address))

    assert untrusted[-1].went is False
    why = untrusted[-1].detail
    assert why.startswith("Certificate not trusted: self-signed certificate")
    assert "The server showed subject CN=peer" in why
    assert ", issuer CN=" in why
    assert re.search(r"valid from 20\d\d-\d\d-\d\d to 20", why)
    assert [step.went for step in trusted[:2]] == [True, True]
    assert "certificate until" in trusted[1].detail


def test_connection_test_by_mail_tests_our_mail_host(settings: Settings) -> None:
    partner = partner_at("mailto:b@example.net")
    with Mailbox() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.EMAIL_USE_SSL = False

        assert tried(partner) == [("way", None), ("TCP", True)]


def test_get_tests_nothing_and_post_needs_its_token(operator: Client) -> None:
    with Peer() as peer:
        agreement = partner_at(peer.address).agreements.get()
        strict = client_of(
            "sue", "view_agreement", "send_now_outboundlink", enforce_csrf_checks=True
        )

        assert operator.get(connection_page(agreement)).status_code == 200
        assert strict.post(connection_page(agreement)).status_code == 403
        assert peer.connections == 0

        shown = operator.post(connection_page(agreement)).content.decode()
        assert "connected to 127.0.0.1" in shown


def test_a_viewer_may_not_test() -> None:
    agreement = make_world().agreement
    viewer = client_of("vera", "view_agreement")

    assert viewer.post(connection_page(agreement)).status_code == 403
    page = viewer.get(reverse("admin:partners_agreement_change", args=[agreement.pk]))
    assert connection_page(agreement) not in page.content.decode()
