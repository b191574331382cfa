"""Messages that fly: the list, the page of one, and what an operator does to it."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link
from msh.models import Flight, History, OutboundMessage
from msh.store.history import Actor
from tests.admin.conftest import address, messages_of, submit, url, use
from tests.flows.byhand import Carrying
from tests.flows.flying import STATES, Sky, make_sky, sky_of_five
from tests.flows.world import make_world
from tests.peer import Peer, status
from tests.peer.answers import Answer
from tests.peer.ebms2 import Envelope, status_response
from tests.peer.recording import Received

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_outboundmessage_changelist")


def test_list_shows_and_finds_them_by_their_state(administrator: Client) -> None:
    sky_of_five()
    listed = administrator.get(LIST)
    assert [one.shown for one in listed.context["cl"].result_list] == STATES[::-1]
    page = listed.content.decode()
    assert "flying" not in page
    assert '<option value="held">Held</option>' in page
    for state in STATES:
        found = administrator.get(LIST, {"state__exact": state}).context["cl"].result_list
        assert [one.shown for one in found] == [state]


def offered(client: Client, message: OutboundMessage) -> list[str]:
    page = client.get(url(OutboundMessage, "change", message.pk))
    return [offer.action.name for offer in page.context["offers"]]


@pytest.fixture
def sky() -> Sky:
    return make_sky(retries=1)


@pytest.mark.requirement("EB-092")
def test_actions_are_those_that_its_state_allows(supervisor: Client, sky: Sky) -> None:
    message = sky.submit()
    assert offered(supervisor, message) == ["suspend", "cancel", "correct"]
    (job,) = sky.poll()
    sky.end(job)
    assert offered(supervisor, message) == [
        *("send_now", "suspend", "ask_status", "cancel", "correct")
    ]
    Flight.objects.update(copies=2)
    assert "reset_retries" in offered(supervisor, message)

    said = messages_of(use(supervisor, "suspend", message))

    assert said == f"Message {message}: it is held. No copy of it is sent until it is resumed."
    assert sky.state(message) == "held"
    assert offered(supervisor, message) == ["resume", "send_now", "ask_status", "cancel", "correct"]
    assert "is queued" not in messages_of(use(supervisor, "resume", message))
    assert sky.state(message) == "ready"
    assert Flight.objects.get().copies == 0
    assert ("OperatorResumed", "held", "in_flight") in sky.history(message)


@pytest.mark.requirement("EB-092")
def test_a_dialog_says_what_it_will_do_to_the_message(supervisor: Client, sky: Sky) -> None:
    message = sky.submit()
    (job,) = sky.poll()
    sky.end(job)
    Flight.objects.update(copies=2)

    def says(action: str) -> str:
        return str(supervisor.get(address(action, message)).context["consequence"])

    assert f"Other messages to {sky.partner} are still sent" in says("suspend")
    assert "is reset from 1 to 0 of 1. Nothing is sent now" in says("reset_retries")
    assert "No retry is used" in says("send_now")
    assert "Other messages are not affected" in says("cancel")
    use(supervisor, "suspend", message)
    assert "retry counter restarts at 0 of 1" in says("resume")


@pytest.mark.requirement("EB-146")
def test_the_partner_is_asked_for_the_status(supervisor: Client) -> None:
    def answer(request: Received) -> Answer:
        asked = Envelope(request.body).text("eb:MessageData/eb:MessageId")
        parties = {"from_party": "them", "to_party": "us", "party_type": "urn:party"}
        about = {"cpa_id": sky.agreement.tpa_id, **parties}
        out = status_response(asked, message.message_id, "Processed", **about)
        return status(200, body=out.body, headers={"Content-Type": out.content_type})

    sky = make_sky(sync_reply="signalsOnly")
    message = sky.submit()
    (job,) = sky.poll()
    sky.end(job)
    with Peer() as peer:
        sky.partner.address = peer.address
        sky.partner.save()
        peer.always(answer)

        said = messages_of(use(supervisor, "ask_status", message))

    assert said == f"{sky.partner} says of message {message}: Processed."
    assert sky.state(message) == "waiting"
    told, asked = History.objects.filter(message_id=message.message_id).order_by("-pk")[:2]
    assert (asked.event, told.event) == ("StatusRequested", "StatusResponseReceived")
    assert told.detail.startswith("Processed; asked by")
    page = supervisor.get(url(OutboundMessage, "change", message.pk)).content.decode()
    assert "Processed; asked by" in page
    sky.answer(message)
    assert "ask_status" not in offered(supervisor, message)


def test_a_dialog_that_is_outdated_does_nothing(supervisor: Client, sky: Sky) -> None:
    message = sky.submit()
    (job,) = sky.poll()
    sky.end(job)
    seen = supervisor.get(address("send_now", message)).context["form"].initial["version"]
    use(supervisor, "send_now", message)
    (job,) = sky.poll()
    sky.end(job)
    response = submit(supervisor, address("send_now", message), version=seen)
    assert "Nothing was done: the message has changed" in messages_of(response)
    assert sky.poll() == []


def test_cancelling_one_that_was_sent_needs_a_verdict(supervisor: Client, sky: Sky) -> None:
    message, other = sky.submit(), sky.submit()
    assert "verdict" not in supervisor.get(address("cancel", message)).context["form"].fields
    jobs = sky.poll()
    sky.end(jobs[0])
    assert "verdict" in use(supervisor, "cancel", message).context["form"].errors
    use(supervisor, "cancel", message, verdict="unknown")
    assert (sky.state(message), sky.state(other)) == ("cancelled", "waiting")


def test_one_that_flies_is_corrected(supervisor: Client, sky: Sky) -> None:
    message = sky.submit(from_role="urn:Buyer")
    changes = {"service_interface": "urn:orders", "action": "Changed"}
    new = SimpleUploadedFile("corrected.xml", b"<new/>")
    submit(supervisor, address("correct", message), **changes, payload_1=new)  # type: ignore[arg-type]
    copy = OutboundMessage.objects.get(corrects=message)
    assert (sky.state(message), sky.state(copy)) == ("cancelled", "ready")
    assert (copy.action, copy.from_role) == ("Changed", "urn:Buyer")


def test_a_message_of_the_draft_has_none_of_these_actions(supervisor: Client) -> None:
    message = make_world().submit()
    assert offered(supervisor, message) == ["cancel", "correct"]
    page = supervisor.get(address("suspend", message)).content.decode()
    assert "it is sent in the order of its link: use the actions of the link." in page


def test_page_shows_attempts_next_copy_and_roles(viewer: Client) -> None:
    sky = make_sky(our_role="urn:Us", their_role="urn:Them", service_type="urn:t", time_to_live=900)
    first, second, third = [sky.submit() for _ in range(3)]
    for job in sky.poll(Carrying(left=2)):
        sky.end(job)
    Flight.objects.filter(message=second).update(copies=3)

    def fields(message: OutboundMessage) -> dict[str, str]:
        page = viewer.get(url(OutboundMessage, "change", message.pk))
        assert page.status_code == 200
        found = page.context["adminform"]
        names = [field for line in found.fieldsets[0][1]["fields"] for field in _flat(line)]
        row = found.model_admin.get_object(page.wsgi_request, str(message.pk))
        below = {name: str(getattr(found.model_admin, name, lambda _: "")(row)) for name in names}
        return below | {name: str(value) for name, value in page.context["headline"].facts}

    shown = fields(first)
    assert shown["Attempts"] == "1 attempt, 0 of 2 retries used"
    assert "unless it is acknowledged" in shown["Next copy"]
    assert "<time" in shown["No copy is sent after"]
    assert "urn:Us" in shown["roles"]
    assert "urn:t" in shown["kind_of_service"]
    assert fields(second)["Next copy"].startswith("none: its last wait ends")
    assert fields(third)["Next copy"] == "waits for a worker or a place in the window"
    change_link.suspend(sky.partner, Actor("ann", "they move"))
    assert fields(third)["Next copy"] == "waits until sending to the partner is resumed"
    sky.answer(first)
    ended = fields(first)
    assert (ended["Attempts"], ended["Next copy"]) == ("-", "none")
    assert "Number" in fields(make_world().submit())


def _flat(line: str | tuple[str, ...]) -> tuple[str, ...]:
    return (line,) if isinstance(line, str) else line


@pytest.mark.parametrize("text", ["<order/>", ""], ids=["package", "alone"])
def test_the_envelope_is_shown_as_it_is_stored(viewer: Client, sky: Sky, text: str) -> None:
    message = sky.submit(text)
    (job,) = sky.poll()
    sky.end(job)
    where = url(OutboundMessage, "header", message.pk)
    assert "&lt;eb:CPAId&gt;" in viewer.get(where).content.decode()
    envelope = viewer.get(url(OutboundMessage, "header_bytes", message.pk)).content
    assert envelope.startswith(b"<?xml")
    assert envelope in job.body
