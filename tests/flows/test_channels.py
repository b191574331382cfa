"""What we send under an agreement with channels: only what is listed, with the terms of its channel
(EB-201)."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from msh.api.submission import Agreements, prepared
from msh.flows.receiving import ebms2, questions
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.flows.sending.submit_many import submit_all
from msh.models import Flight, OutboundMessage
from msh.protocol.ebms.vocabulary import SERVICE
from msh.store.engine import run
from msh.store.flights.flight_sql import LOAD_COPIES
from msh.transport.job import Job
from msh.wire.ebms2.envelope import parse
from partners.models import Channel
from partners.models.partner import OutgoingKind
from tests.keys import environment, new_key, pem_of
from tests.peer import Peer
from tests.peer.ebms2 import Envelope, Outgoing, acknowledgment, message, ping

from . import byhand
from .flying import SILENT, Sky, make_sky

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.requirement("EB-201")]

ELSEWHERE = "http://stock.example:8080/ebms/"
HINT: dict[str, Any] = {"semantics": "BestEffort", "ack": "never"}


def out(action: str, **terms: Any) -> dict[str, Any]:
    return {"direction": "out", "service": "urn:orders", "action": action, **terms}


def sky_with(*channels: dict[str, Any], **terms: Any) -> Sky:
    return make_sky(channels=list(channels), **terms)


def signals(action: str, **terms: Any) -> dict[str, Any]:
    return out(action, service=SERVICE, **terms)


def jobs_by_action(sky: Sky) -> dict[str, Job]:
    """What is sent now, reliable or not."""
    names = dict(OutboundMessage.objects.values_list("message_id", "action"))
    return {names[job.message_id]: job for job in [*sky.poll(), *byhand.poll()]}


def terms_of(message: OutboundMessage, *names: str) -> list[Any]:
    """Those that it was sent under."""
    message.refresh_from_db()
    terms: Any = message.terms
    return [terms[name] for name in names]


@pytest.mark.parametrize(
    ("service", "action", "why"),
    [
        ("urn:orders", "Old", "action 'Old': agreement {} lists only New, Stock"),
        ("urn:other", "New", "service_interface 'urn:other': agreement {} lists only urn:orders"),
    ],
)
def test_a_submission_of_what_is_not_listed_is_refused_and_says_what_is(
    service: str, action: str, why: str
) -> None:
    sky = sky_with(out("New"), out("Stock"), {**out("Answer"), "direction": "in"})
    with pytest.raises(SubmitRefused) as refused:
        submit(sky.agreement, service, action, [])
    assert str(refused.value) == why.format(sky.agreement)
    assert str(refused.value).startswith(refused.value.field)
    assert not OutboundMessage.objects.exists()
    assert submit(sky.agreement, "urn:orders", "Stock", []).pk


BY_TYPE = (
    out("New", service_type="plain", address=ELSEWHERE),
    out("New", service_type="late", retries=9),
    out("New"),
)


@pytest.mark.parametrize(
    ("wanted", "service_type", "retries", "address"),
    [
        ("plain", "plain", 2, ELSEWHERE),
        ("late", "late", 9, None),
        ("usual", "usual", 2, None),
        (None, "usual", 2, None),
    ],
)
def test_services_that_differ_by_type_are_sent_with_the_terms_of_each(
    wanted: str | None, service_type: str, retries: int, address: str | None
) -> None:
    sky = sky_with(*BY_TYPE, service_type="usual", retries=2)
    values = {"tpa_id": sky.agreement.tpa_id, "service_interface": "urn:orders", "action": "New"}
    values |= {} if wanted is None else {"service_type": wanted}
    agreements = Agreements()
    agreements.look_up([sky.agreement.tpa_id])
    (answer,) = submit_all([[prepared(values, agreements)]])
    assert answer.result == "accepted", answer
    submit(sky.agreement, "urn:orders", "New", [], service_type=wanted)
    jobs = sky.poll()
    assert [job.url for job in jobs] == [address or sky.partner.uri] * 2
    for one in OutboundMessage.objects.all():
        assert one.service_type == service_type
        assert terms_of(one, "retries") == [retries]


@pytest.mark.parametrize(
    ("channels", "wanted", "why"),
    [
        (
            BY_TYPE,
            "odd",
            "service_type 'odd': agreement {} lists only late, plain, usual of this Service",
        ),
        (
            BY_TYPE[:2],
            None,
            "service_type is missing: agreement {} lists late, plain of this Service",
        ),
    ],
)
def test_a_type_that_is_not_listed_or_not_clear_is_refused(
    channels: tuple[dict[str, Any], ...], wanted: str | None, why: str
) -> None:
    sky = sky_with(*channels, service_type="usual")
    with pytest.raises(SubmitRefused) as refused:
        submit(sky.agreement, "urn:orders", "New", [], service_type=wanted)
    assert (str(refused.value), refused.value.field) == (why.format(sky.agreement), "service_type")


def test_a_channel_without_a_type_takes_any_and_the_only_one_gives_its_own() -> None:
    sky = sky_with(out("New"), out("Stock", service_type="stock"), service_type="")
    submit(sky.agreement, "urn:orders", "New", [], service_type="odd")
    submit(sky.agreement, "urn:orders", "New", [])
    submit(sky.agreement, "urn:orders", "Stock", [])
    types = OutboundMessage.objects.order_by("pk").values_list("service_type", flat=True)
    assert [*types] == ["odd", "", "stock"]


def test_what_waits_when_its_type_is_changed_keeps_the_channel_of_its_action() -> None:
    """In SQL as in `channel_of`: its own type, none, that of the agreement, the first one."""
    sky = sky_with(*BY_TYPE, service_type="usual")
    message = submit(sky.agreement, "urn:orders", "New", [], service_type="plain")
    plain = Channel.objects.get(service_type="plain")

    def address() -> str | None:
        ((row,),) = run(LOAD_COPIES(keys=[message.pk]))
        return row.channel_address

    for changed, found in (("plain", ELSEWHERE), ("", ELSEWHERE), ("odd", None)):
        Channel.objects.filter(pk=plain.pk).update(service_type=changed)
        assert address() == found
    Channel.objects.filter(service_type=None).delete()
    assert address() == ELSEWHERE


def test_channels_of_what_comes_alone_say_that_we_send_nothing() -> None:
    sky = sky_with({**out("Answer"), "direction": "in"}, signals("MessageError"))
    why = "service_interface 'urn:orders', action 'New': agreement {} lists nothing that we send"
    with pytest.raises(SubmitRefused) as refused:
        submit(sky.agreement, "urn:orders", "New", [])
    assert (str(refused.value), refused.value.field) == (
        why.format(sky.agreement),
        "service_interface",
    )
    agreements = Agreements()
    agreements.look_up([sky.agreement.tpa_id])
    values = {"tpa_id": sky.agreement.tpa_id, "service_interface": "urn:orders", "action": "New"}
    with pytest.raises(SubmitRefused):
        prepared(values, agreements)
    assert not OutboundMessage.objects.exists()


def test_channels_of_signals_list_nothing() -> None:
    assert sky_with(signals("MessageError")).submit(action="New").pk


def test_each_action_is_sent_with_its_own_terms() -> None:
    sky = sky_with(
        out(
            "New",
            our_role="Buyer",
            eliminates="never",
            soap_action="{action}",
            sync_reply="mshSignalsOnly",
        ),
        out("Hint", **HINT),
        out("Stock", ordered=True, address=ELSEWHERE, their_role="Store"),
        our_role="Shop",
    )
    for action in ("New", "Hint", "Stock"):
        sky.submit(action=action)

    sent = jobs_by_action(sky)

    assert [("SOAPAction", f'"{name}"') in sent["New"].headers for name in ("New", "ebXML")] == [
        True,
        False,
    ]
    assert b"Buyer" in sent["New"].body
    assert b"DuplicateElimination" not in sent["New"].body
    assert b"AckRequested" in sent["New"].body
    assert b"SyncReply" in sent["New"].body
    assert b"SyncReply" not in sent["Stock"].body
    assert b"AckRequested" not in sent["Hint"].body
    assert b"Shop" in sent["Hint"].body
    assert b"MessageOrder" in sent["Stock"].body
    assert b"Store" in sent["Stock"].body
    assert {name: job.url for name, job in sent.items()} == {
        "New": sky.partner.uri,
        "Hint": sky.partner.uri,
        "Stock": ELSEWHERE,
    }


def test_each_action_is_signed_as_its_channel_says(settings: Any, tmp_path: Path) -> None:
    for name, value in environment(tmp_path, [new_key("us")]).items():
        setattr(settings, name, [value])
    certified = {"certificate": pem_of(new_key("them"))}
    sky = sky_with(out("New", signed=True), out("Stock"), signed=False, **certified)
    for action in ("New", "Stock"):
        sky.submit(action=action)
    is_signed = {
        action: parse(job.content_type, job.body).message.signed
        for action, job in jobs_by_action(sky).items()
    }
    assert is_signed == {"New": True, "Stock": False}


def test_each_action_is_sent_again_as_its_channel_says() -> None:
    sky = sky_with(out("New", retries=0), out("Stock", retries=5, retry_interval=7), retries=2)
    new, stock = (sky.submit(action=action) for action in ("New", "Stock"))
    for job in sky.poll():
        sky.end(job)
    sky.let_pass(10)

    (again,) = sky.poll()

    assert again.message_id == stock.message_id
    assert terms_of(stock, "retries", "retry_interval") == [5, 7]
    sky.let_pass(60)
    sky.poll()
    assert sky.state(new) == "failed"


def test_a_message_under_way_keeps_the_terms_that_it_was_sent_with() -> None:
    """Its address is where the channel leads now, as the partner's is."""
    sky = sky_with(out("New", retries=5, retry_interval=7))
    message = sky.submit()
    (job,) = sky.poll()
    sky.end(job, SILENT)
    Channel.objects.update(retries=0, retry_interval=1000, address=ELSEWHERE, ack_actor="nextMSH")
    sky.let_pass(10)

    (again,) = sky.poll()

    assert (again.body, again.url) == (job.body, ELSEWHERE)
    assert terms_of(message, "retries") == [5]


def test_what_waits_when_its_channel_is_removed_has_the_terms_of_the_agreement() -> None:
    sky = sky_with(out("New", our_role="Buyer", address=ELSEWHERE))
    sky.submit(from_role="Buyer")
    Channel.objects.all().delete()
    (job,) = sky.poll()
    assert job.url == sky.partner.uri
    assert terms_of(OutboundMessage.objects.get(), "retries") == [sky.agreement.retries]


def test_only_messages_of_an_ordered_channel_wait_for_their_turn() -> None:
    sky = sky_with(
        out("New", ordered=True), out("Stock"), out("Late", ordered=False), ordered=False
    )
    values = {"tpa_id": sky.agreement.tpa_id, "service_interface": "urn:orders"}
    agreements = Agreements()
    agreements.look_up([sky.agreement.tpa_id])
    for action in ("New", "Stock", "Late"):
        sky.submit(action=action)
        (answer,) = submit_all([[prepared({**values, "action": action}, agreements)]])
        assert answer.result == "accepted", answer
    waits = Flight.objects.filter(waits_turn=True).values_list("message__action", flat=True)
    assert [*waits] == ["New", "New"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [(ELSEWHERE, False), ("http://SKY.example:80/other/path", True), (None, True)],
)
def test_our_credential_is_shown_only_where_the_partner_is(address: str, shown: bool) -> None:
    sky = sky_with(out("New"), out("Hint", **HINT))
    sky.partner.address = "http://sky.example/ebxml/"
    sky.partner.show(OutgoingKind.BEARER, "a-token")
    sky.partner.save()
    Channel.objects.update(address=address)
    for action in ("New", "Hint"):
        sky.submit(action=action)
    sent = jobs_by_action(sky)
    assert [bool(sent[name].authorization) for name in ("New", "Hint")] == [shown, shown]


def test_channels_are_asked_for_only_where_there_are_any() -> None:
    def statements(sky: Sky) -> int:
        with CaptureQueriesContext(connection) as captured:
            agreements = Agreements()
            agreements.look_up([sky.agreement.tpa_id])
            for action in ("New", "Stock"):
                values = {"tpa_id": sky.agreement.tpa_id, "service_interface": "urn:orders"}
                agreements.heading({**values, "action": action})
        return len(captured)

    # Beside the statement for the agreements, which is none of the ORM's.
    assert [statements(make_sky()), statements(sky_with(out("New"), out("Stock")))] == [0, 1]


def receive(sky: Sky, out: Outgoing) -> None:
    sent = sky.from_partner(out)
    ebms2.receive(sky.partner, Incoming(sent.content_type, sent.body))


def test_signals_go_where_their_channel_leads_and_else_where_the_partner_is() -> None:
    """The default channel of signals, and its override."""
    errors, pongs = "http://errors.example/ebms/", "http://pongs.example/ebms/"
    sky = sky_with(
        signals("MessageError", address=errors, our_role="Clerk"),
        signals("Pong", address=pongs),
        our_role="Shop",
        their_role="Buyer",
    )
    for asked in (message(from_role="Buyer", to_role="Shop"), message(from_role="Thief"), ping()):
        receive(sky, asked)

    sent = {Envelope(job.body).text("eb:Action"): job for job in byhand.poll()}

    assert {action: job.url for action, job in sent.items()} == {
        "Acknowledgment": sky.partner.uri,
        "MessageError": errors,
        "Pong": pongs,
    }
    roles = {name: Envelope(job.body).text("eb:From/eb:Role") for name, job in sent.items()}
    assert roles == {"Acknowledgment": "Shop", "MessageError": "Clerk", "Pong": "Shop"}


def test_an_error_goes_to_the_error_address_unless_its_channel_leads_elsewhere() -> None:
    sky = sky_with(signals("MessageError"), their_role="Buyer")
    sky.partner.error_address = "http://sky.example/errors/"
    sky.partner.save()
    receive(sky, message(from_role="Thief"))
    assert [job.url for job in byhand.poll()] == ["http://sky.example/errors/"]


def test_a_ping_of_ours_goes_where_its_channel_leads() -> None:
    with Peer() as peer:
        sky = sky_with(signals("Ping", address=peer.address))
        said = questions.ping(sky.partner, patience=0.1)
        assert not said.is_answer
        (request,) = peer.received
        assert Envelope(request.body).text("eb:Action") == "Ping"


def test_an_acknowledgment_is_signed_as_the_channel_of_its_message_says() -> None:
    """Not as that of what comes from the partner: an unsigned one does not count for an Action that
    wants it signed."""
    certified = {"certificate": pem_of(new_key("them")), "ack_signed": False}
    sky = sky_with(
        out("New", ack_signed=True),
        out("Stock", ack_signed=False),
        {**out("Answer"), "direction": "in", "ack_signed": True},
        **certified,
    )
    new, stock = (sky.submit(action=action) for action in ("New", "Stock"))
    sky.poll()
    for one in (new, stock):
        receive(sky, acknowledgment(one.message_id))
    assert [sky.state(one) for one in (new, stock)] == ["waiting", "acknowledged"]
    assert sky.incidents() == ["answer_refused"]
