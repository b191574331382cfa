"""What helps is the filled button, by the cause; who may not do it learns who may."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.runbooks import RUNBOOKS
from msh.flows.operations.inspection.causes import ANSWERS
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.models import History, Incident, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult, outcome_of
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.reason import Reason
from partners.models import Partner
from tests.admin.conftest import url, use
from tests.flows.flying import Sky, make_sky
from tests.flows.test_bad_errors import about, come
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

NAMES = sorted(page.stem for page in RUNBOOKS.glob("*.md"))


def silent_world(status: int, detail: str, reason: Reason = Reason.NONE) -> World:
    """Suspended when all retries were spent; this was the last answer."""
    world = make_world(retries=0)
    _, job = world.start()
    world.end(job, AttemptResult(outcome_of(status), status, detail, reason=reason))
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()
    return world


def page_of(client: Client, world: World) -> Any:
    return client.get(reverse("admin:msh_outboundlink_change", args=[world.link.pk]))


def filled(page: Any) -> list[str]:
    """Titles of the recommended buttons."""
    jumps: Iterable[Any] = page.context["advice"].jumps
    offers: Iterable[Any] = page.context["offers"]
    shown = [jump.title for jump in jumps if jump.recommended]
    return [*shown, *(offer.action.title for offer in offers if offer.recommended)]


def test_refused_credentials_are_replaced_before_anything_is_resumed(
    administrator: Client, operator: Client
) -> None:
    world = silent_world(401, "401 Unauthorized")

    page = page_of(administrator, world)
    assert filled(page) == ["Partner settings"]
    url, _, section = page.context["advice"].jumps[0].url.partition("#")
    assert section == "authentication"
    assert parse_qs(urlsplit(url).query) == {"back": [page.request["PATH_INFO"]]}
    assert "Replace our credentials in the partner" in page.content.decode()
    assert reverse("runbook", args=["credentials"]) in page.content.decode()
    assert page.context["advice"].ask == ""

    page = page_of(operator, world)
    assert filled(page) == ["Test connection"]
    assert page.context["advice"].ask == (
        "You have no permission to change the partner's settings: ask a user with the role"
        " Administrator."
    )


def test_a_failing_partner_is_resumed_when_it_is_mended(operator: Client) -> None:
    page = page_of(operator, silent_world(500, "500 Internal Server Error"))

    assert filled(page) == ["Resume sending"]
    assert "Call the partner&#x27;s operator" in page.content.decode()


def test_numbers_out_of_sync_are_resynchronised_and_not_resumed(
    operator: Client, supervisor: Client
) -> None:
    world = silent_world(500, "500 Internal Server Error")
    links = OutboundLink.objects.filter(pk=world.link.pk)
    links.update(suspended_for=IncidentKind.RESYNCHRONISE)

    assert filled(page_of(supervisor, world)) == ["Resynchronise and resume"]
    page = page_of(operator, world)
    assert filled(page) == []
    assert "to resynchronise: ask a user with the role Supervisor" in page.content.decode()
    assert "Cancel" in str(page.context["withheld"])
    assert "Resynchronise" not in str(page.context["withheld"]), "the advice has said it"


GAP = "204 No Content: number 22 came, 13 to 21 missing: expected 13"


def test_a_refused_number_is_resynchronised_though_no_error_message_came(
    supervisor: Client,
) -> None:
    """The Error Message of a restored partner may be later than the last retry."""
    world = silent_world(204, GAP, Reason.NUMBERS)

    page = page_of(supervisor, world)
    assert filled(page) == ["Resynchronise and resume"]
    assert page.context["last_error"] == markup.verbatim(GAP)

    incident = Incident.objects.get(partner=world.there)
    page = supervisor.get(reverse("admin:msh_incident_change", args=[incident.pk]))
    assert page.context["offers"][0].action.title == "Resynchronise and resume"


def report_gap(world: World) -> str:
    """The Error Message of a partner about the message in flight; what it says."""
    message = world.link.in_flight
    assert message
    missing = "5 to 6 missing"
    come(world, about(world, message.message_id, "SequenceGap", description=missing))
    return f"SequenceGap: {missing}"


@pytest.mark.parametrize("status", [204, 500])
def test_an_error_about_numbers_that_comes_while_it_is_suspended_is_the_advice(
    status: int, supervisor: Client
) -> None:
    """Of a partner whose answer to the copy said nothing of it: to resume would be in vain."""
    world = silent_world(status, f"{status} so be it")
    kind, since = world.link.suspended_for, world.link.suspended_since
    assert filled(page_of(supervisor, world)) != ["Resynchronise and resume"]

    said = report_gap(world)

    assert (world.link.suspended_for, world.link.suspended_since) == (kind, since)
    page = page_of(supervisor, world)
    assert filled(page) == ["Resynchronise and resume"]
    assert page.context["last_error"] == markup.verbatim(said)
    message = world.link.in_flight
    assert message
    assert "Sending again does not help" in explanation_of(message.pk)
    assert said in explanation_of(message.pk)
    (line,) = supervisor.get(reverse("admin:index")).context["suspended"].lines
    assert (line.answer, line.cause) == (said, ANSWERS[Reason.NUMBERS])
    assert [offer.action.title for offer in line.offers] == ["Resynchronise and resume"]
    incident = Incident.objects.get()
    assert incident.detail.endswith(f"; {said}")
    page = supervisor.get(reverse("admin:msh_incident_change", args=[incident.pk]))
    assert page.context["offers"][0].action.title == "Resynchronise and resume"
    assert History.objects.filter(event="SequenceErrorReceived").exists()


def test_an_operators_reason_is_kept_beside_an_error_about_numbers(supervisor: Client) -> None:
    world = silent_world(500, "500 Internal Server Error")
    OutboundLink.objects.filter(pk=world.link.pk).update(
        suspended_for=OPERATOR, suspended_detail="ann: they move"
    )
    Incident.objects.all().delete()

    said = report_gap(world)

    assert (world.link.suspended_for, world.link.suspended_detail) == (OPERATOR, "ann: they move")
    (row,) = supervisor.get(reverse("admin:index")).context["incidents"]
    assert row.cause.title == "Sequence numbers out of sync with the partner"
    assert said in row.shown_detail


def test_a_resume_forgets_what_the_partner_said_before(supervisor: Client) -> None:
    world = silent_world(204, "204 No Content")
    report_gap(world)

    use(supervisor, "resume", world.link)

    assert world.link.suspended_detail == ""
    world.post(AttemptResult(outcome_of(500), status=500, detail="500 broken"))
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()
    assert filled(page_of(supervisor, world)) == ["Resume sending"]


def test_the_incident_says_the_same(operator: Client) -> None:
    world = silent_world(401, "401 Unauthorized")
    incident = Incident.objects.get(partner=world.there)

    page = operator.get(reverse("admin:msh_incident_change", args=[incident.pk]))

    assert "Replace our credentials in the partner" in page.content.decode()
    assert next(offer.recommended for offer in page.context["offers"]) is False


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_a_page_of_the_console(viewer: Client, name: str) -> None:
    page = viewer.get(reverse("runbook", args=[name])).content.decode()

    article = page[page.index("<article") : page.index("</article>")]
    assert "<li>" in article
    assert ".md" not in article


def test_runbooks_are_for_users_and_only_those_in_the_folder(viewer: Client) -> None:
    assert viewer.get(reverse("runbook", args=["console"])).status_code == 404
    assert Client().get(reverse("runbook", args=["credentials"])).status_code == 302


def retrying_world(status: int | None, detail: str, *, retries: int = 3) -> World:
    """One copy was sent, and this is how it ended; retries remain."""
    world = make_world(retries=retries)
    _, job = world.start()
    outcome = AttemptOutcome.FAILED if status is None else outcome_of(status)
    world.end(job, AttemptResult(outcome, status=status, detail=detail))
    return world


def test_link_that_is_retrying_has_advice_by_the_last_answer(administrator: Client) -> None:
    world = retrying_world(401, "401 Unauthorized")
    page = page_of(administrator, world)
    assert world.link.state == "waiting"
    assert page.context["advice"].text.startswith("The partner refuses our credentials. Replace")
    assert [jump.title for jump in page.context["advice"].jumps] == [
        "Partner settings",
        "Test connection",
    ]
    assert filled(page) == []
    message = OutboundMessage.objects.get()
    assert page.context["advice"].text in explanation_of(message.pk)


def test_message_that_flies_has_it_too(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job, AttemptResult(AttemptOutcome.DOUBTED, status=401, detail="401 Unauthorized"))
    assert ANSWERS[Reason.CREDENTIALS].meanwhile in explanation_of(message.pk)


def test_link_whose_messages_fly_has_advice_while_one_is_sent_again(
    administrator: Client,
) -> None:
    """By the last answer to such a one: the others are under way without a retry."""
    sky = make_sky(window=2)
    first, _ = sky.submit(), sky.submit()
    refused, taken = sky.poll()

    def advice() -> Any:
        return administrator.get(url(OutboundLink, "change", sky.link.pk)).context["advice"]

    assert advice() is None
    sky.end(refused, AttemptResult(AttemptOutcome.DOUBTED, status=401, detail="401 Unauthorized"))
    sky.end(taken)
    assert advice().text == ANSWERS[Reason.CREDENTIALS].meanwhile
    assert [jump.title for jump in advice().jumps] == ["Partner settings", "Test connection"]
    assert not any(jump.recommended for jump in advice().jumps)
    sky.answer(first)
    assert advice() is None


def test_copy_that_is_taken_in_vain_has_advice(sky: Sky, administrator: Client) -> None:
    sky.submit()
    for _ in range(2):
        sky.post()
        sky.let_pass(60)
    page = administrator.get(url(OutboundLink, "change", sky.link.pk))
    assert page.context["advice"].text == ANSWERS[Reason.NO_ACKNOWLEDGEMENT].meanwhile


@pytest.mark.parametrize(("status", "detail"), [(200, "200 OK"), (404, ""), (None, "")])
def test_first_copy_or_an_answer_that_says_nothing_has_no_advice(
    administrator: Client, status: int | None, detail: str
) -> None:
    page = page_of(administrator, retrying_world(status, detail))
    assert bool(page.context["advice"]) is (status == 404)


def test_every_class_of_answer_after_which_a_copy_is_sent_has_its_words() -> None:
    assert [reason for reason, cause in ANSWERS.items() if not cause.meanwhile] == [Reason.MESSAGE]


def test_advice_on_the_address_says_that_our_credential_is_needed_again(operator: Client) -> None:
    world = silent_world(404, "404 Not Found")
    told = "if host, port or scheme of the address change, it must be entered again"
    assert told not in page_of(operator, world).content.decode()

    Partner.objects.filter(pk=world.there.pk).update(outgoing_kind="bearer", outgoing_secret="x")
    assert told in page_of(operator, world).content.decode()
    refused = silent_world(401, "401 no")
    Partner.objects.filter(pk=refused.there.pk).update(outgoing_kind="bearer", outgoing_secret="x")
    assert told not in page_of(operator, refused).content.decode()


def test_advice_on_a_refused_sender_says_what_to_tell_the_partner(
    world: World, operator: Client
) -> None:
    message = world.submit()
    world.poll()
    ours = world.agreement.our_party
    come(
        world,
        about(world, message.message_id, "SecurityFailure", description=f"{ours}: not permitted"),
    )
    text = page_of(operator, world).context["advice"].text
    assert f"permit our party {ours} (MSH {world.there.our_uri}) as sender in agreement" in text
    assert f"{ours} in its answer is our party." in text
    assert "Ask the partner what is wrong" not in text

    refused = silent_world(403, "403 sender unknown to tpa-1", Reason.SENDER)
    text = page_of(operator, refused).context["advice"].text
    assert "permit our party" in text
    assert "tpa-1 in its answer is the agreement." in text
    other = silent_world(403, "403 token expired")
    assert "permit our party" not in page_of(operator, other).context["advice"].text
