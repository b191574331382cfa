"""A message that failed or was cancelled is submitted again: a new one, and both say so."""

import csv
import io
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from msh.admin.framework.headline import ALARM
from msh.flows.operations.inspection.raw_message import payload_of
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.flows.operations.many import bulk_jobs
from msh.models import (
    EVER,
    BulkAction,
    BulkJob,
    History,
    Incident,
    OutboundConversation,
    OutboundMessage,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.history import Actor
from tests.admin.conftest import address, messages_of, submit, url, use
from tests.admin.incidents.bulk import NEW, confirm, preview_url
from tests.admin.messages.test_flights import offered
from tests.flows.flying import REFUSED, Sky, make_sky
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

SUE = Actor("sue", "the partner has repaired its side")
LOST = AttemptResult(AttemptOutcome.FAILED, detail="Cannot connect", body_sent=False)


def failed(sky: Sky, text: str = "<order/>", **options: Any) -> OutboundMessage:
    """The partner has refused it for good."""
    message = sky.submit(text, **options)
    for job in sky.poll():
        sky.end(job, REFUSED)
    message.refresh_from_db()
    assert message.state == "failed"
    return message


def failed_best_effort(world: World) -> OutboundMessage:
    message = world.submit(semantics="BestEffort")
    (job,) = world.poll()
    world.end(job, LOST)
    message.refresh_from_db()
    assert message.state == "failed"
    return message


def copy_of(message: OutboundMessage) -> OutboundMessage:
    return OutboundMessage.objects.get(corrects=message)


def page(client: Client, message: OutboundMessage) -> str:
    return client.get(url(OutboundMessage, "change", message.pk)).content.decode()


# --- one message --------------------------------------------------------------------------------
def test_a_failed_message_is_submitted_again_with_a_reason(supervisor: Client) -> None:
    sky = make_sky()
    message = failed(sky, from_role="urn:Buyer", conversation_id="case 7")

    said = messages_of(use(supervisor, "submit_again", message))

    copy = copy_of(message)
    assert said.startswith(f"Message {message} was submitted again as ")
    assert copy.message_id in said
    assert copy.message_id != message.message_id
    same = ("conversation_id", "service_interface", "action", "from_role", "agreement_id")
    assert [getattr(copy, name) for name in same] == [getattr(message, name) for name in same]
    assert payload_of(copy, 1).content == b"<order/>"
    assert sky.state(copy) == "ready"
    message.refresh_from_db()
    assert message.state == "failed"
    told = History.objects.filter(actor="sue").values_list("message_id", "event", "detail")
    assert set(told) == {
        (message.message_id, "CopySubmitted", f"{copy} was submitted instead; agreed by telephone"),
        (copy.message_id, "SubmittedInstead", f"instead of {message}; agreed by telephone"),
    }


def test_a_failed_best_effort_message_is_submitted_again(supervisor: Client) -> None:
    message = failed_best_effort(make_world())
    assert offered(supervisor, message) == ["submit_again", "correct"]
    use(supervisor, "submit_again", message)
    copy = copy_of(message)
    assert (copy.state, copy.semantics) == ("queued", "BestEffort")
    assert payload_of(copy, 1).content == b"<order/>"


def test_a_failed_message_is_corrected(supervisor: Client) -> None:
    sky = make_sky()
    message = failed(sky)
    submit(
        supervisor, address("correct", message), service_interface="urn:orders", action="Changed"
    )
    assert (copy_of(message).action, sky.state(message)) == ("Changed", "failed")


def test_a_message_is_submitted_again_once(supervisor: Client) -> None:
    message = failed(make_sky())
    use(supervisor, "submit_again", message)
    assert "submit_again" not in offered(supervisor, message)
    assert "already submitted instead" in messages_of(use(supervisor, "submit_again", message))
    assert OutboundMessage.objects.count() == 2


def test_one_that_stops_its_conversation_needs_a_verdict(supervisor: Client) -> None:
    sky = make_sky(ordered=True, semantics="OnceAndOnlyOnce")
    message = failed(sky, conversation_id="c1")
    assert OutboundConversation.objects.get().stopped_by == [message.message_id]
    assert offered(supervisor, message)[0] == "resume"

    refused = use(supervisor, "submit_again", message)
    assert "verdict" in refused.context["form"].errors
    use(supervisor, "submit_again", message, verdict="unknown")

    assert sky.state(message) == "cancelled"
    assert copy_of(message).conversation_id == "c1"
    conversation = OutboundConversation.objects.get()
    assert (conversation.state, conversation.broken) == ("stopped", True)


def test_who_may_not_submit_again_learns_who_may(operator: Client) -> None:
    assert "ask a user with the role Supervisor" in page(operator, failed(make_sky()))


def test_nothing_is_submitted_again_that_the_partner_has(supervisor: Client) -> None:
    sky = make_sky()
    message = sky.submit()
    (job,) = sky.poll()
    sky.end(job)
    sky.answer(message)
    assert "submit_again" not in offered(supervisor, message)
    use(supervisor, "submit_again", message)
    assert OutboundMessage.objects.count() == 1


def test_command_submits_again(capsys: pytest.CaptureFixture[str]) -> None:
    message = failed(make_sky())
    call_command("submit-again", message.message_id, "--reason", "they repaired it")
    copy = copy_of(message)
    assert capsys.readouterr().out == f"{message}: submitted again as {copy}.\n"


# --- generations, and a late Acknowledgement ----------------------------------------------------
def three_generations(client: Client, sky: Sky) -> list[OutboundMessage]:
    generations = [failed(sky)]
    for _ in range(2):
        use(client, "submit_again", generations[-1])
        for job in sky.poll():
            sky.end(job, REFUSED)
        generations.append(copy_of(generations[-1]))
    return generations


def test_each_generation_points_to_those_before_and_after(supervisor: Client) -> None:
    first, second, third = three_generations(supervisor, make_sky())
    shown = page(supervisor, second)
    for other in (first, third):
        assert f'href="{url(OutboundMessage, "change", other.pk)}"' in shown
    assert f"Message {second} was submitted instead: failed." in explanation_of(first.pk)
    assert f"It was submitted instead of message {second}." in explanation_of(third.pk)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_late_acknowledgement_is_shown_at_all_generations(supervisor: Client, how: str) -> None:
    sky = make_sky()
    if how == "failed":
        first, *_, last = three_generations(supervisor, sky)
    else:
        first = sky.submit()
        (job,) = sky.poll()
        sky.end(job)
        use(supervisor, "cancel", first, verdict="unknown")
        use(supervisor, "submit_again", first)
        last = copy_of(first)

    sky.answer(first)

    assert "The partner has this one after all. It may have the same content twice" in (
        explanation_of(first.pk)
    )
    assert f"It stands for message {first}, which the partner has after all" in (
        explanation_of(last.pk)
    )
    for one in (first, last):
        shown = supervisor.get(url(OutboundMessage, "change", one.pk))
        assert shown.context["headline"].tone == ALARM
        assert "the same content twice" in shown.content.decode()


def test_export_and_api_show_the_chain(supervisor: Client) -> None:
    first, second, third = three_generations(supervisor, make_sky())
    sent = supervisor.post(url(OutboundMessage, "rows"), {"format": "csv"})
    rows = {
        row["message_id"]: (row["instead_of"], row["submitted_again_as"])
        for row in csv.DictReader(io.StringIO(b"".join(sent).decode()))
    }
    ids = [one.message_id for one in (first, second, third)]
    assert rows == {ids[0]: ("", ids[1]), ids[1]: (ids[0], ids[2]), ids[2]: (ids[1], "")}


# --- many ---------------------------------------------------------------------------------------
def preview(client: Client, **filters: Any) -> dict[str, Any]:
    shown = client.get(preview_url("submit-again", **filters))
    assert shown.status_code == 200
    return {name: shown.context[name] for name in ("rows", "gone")}


def run(client: Client, keys: list[int], **filters: Any) -> BulkJob:
    response = confirm(client, "submit-again", filters, keys=keys, reason="all of them")
    assert response.status_code == 302, response.content.decode()
    bulk_jobs.run()
    return BulkJob.objects.latest("pk")


def test_all_that_failed_for_an_incident_are_submitted_again(supervisor: Client) -> None:
    sky, other = make_sky(), make_sky()
    some = [failed(sky) for _ in range(3)]
    failed(other)
    incident = Incident.objects.get(partner=sky.partner)
    assert incident.count == 3

    jumps = supervisor.get(url(Incident, "change", incident.pk)).context["jumps"]
    (jump,) = [one for one in jumps if "again" in one.title]
    assert jump.title == "Submit these 3 again"
    context = preview(supervisor, incident=incident.pk)
    assert jump.url.endswith(f"?action=submit-again&incident={incident.pk}")
    assert [row.key for row in context["rows"]] == [one.pk for one in some]
    job = run(supervisor, [one.pk for one in some], incident=incident.pk)

    assert (job.total, job.done) == (3, 3)
    assert OutboundMessage.objects.filter(corrects__in=some).count() == 3
    assert supervisor.get(url(BulkJob, "change", job.pk)).status_code == 200


def test_preview_warns_of_rows_with_copies_and_of_what_the_partner_has(supervisor: Client) -> None:
    sky = make_sky()
    first, second, third = three_generations(supervisor, sky)
    plain, late = failed(sky), failed(sky)
    sky.answer(first)
    sky.answer(late)

    chosen = ",".join(str(one.pk) for one in (first, second, third, plain, late))
    context = preview(supervisor, id__in=chosen)

    why = {row.key: row.why_not for row in context["rows"]}
    assert set(why) == {second.pk, third.pk, plain.pk}
    assert why[plain.pk] == ""
    assert "already submitted instead" in why[second.pk]
    assert f"stands for message {first}" in why[third.pk]
    gone = context["gone"]
    assert [text.split(":")[0] for text in gone] == [first.message_id, late.message_id]
    assert all("acknowledged it meanwhile" in text for text in gone)
    job = run(supervisor, [second.pk, plain.pk], id__in=chosen)
    assert (job.done, job.refused) == (1, 1)  # a copy is never submitted of what has one


def test_a_job_for_all_leaves_those_out(supervisor: Client) -> None:
    sky = make_sky()
    first, _, _ = three_generations(supervisor, sky)
    plain = failed(sky)
    sky.answer(first)
    stops = failed(make_sky(ordered=True), conversation_id="c1")
    left = list(bulk_jobs.rows_of(BulkAction.SUBMIT_AGAIN, EVER, spare_copied=True))
    assert left == [plain]
    assert list(bulk_jobs.rows_of(BulkAction.RESUME_MESSAGES)) == [stops]


def test_selected_messages_of_the_list_go_to_the_preview(
    supervisor: Client, operator: Client
) -> None:
    message = failed(make_sky())
    listed = url(OutboundMessage, "changelist")
    data = {"action": "submit_again", "_selected_action": [message.pk]}
    response = supervisor.post(listed, data)
    assert response["Location"] == f"{NEW}?action=submit-again&id__in={message.pk}"
    assert "Submit again" not in operator.get(listed).content.decode()


def test_held_messages_of_a_partner_are_resumed_together(supervisor: Client) -> None:
    sky, other = make_sky(on_failure="hold"), make_sky(on_failure="hold")
    held = [sky.submit(), sky.submit(), other.submit()]
    for one in held:
        use(supervisor, "suspend", one)
    shown = supervisor.get(preview_url("resume-messages", link__partner__id__exact=sky.partner.pk))
    assert [row.key for row in shown.context["rows"]] == [one.pk for one in held[:2]]
    bulk_jobs.start(BulkAction.RESUME_MESSAGES, EVER, None, SUE, partner=sky.partner.name)
    bulk_jobs.run()
    assert [sky.state(one) for one in held] == ["ready", "ready", "held"]


def test_all_that_are_held_are_resumed_from_their_incident(
    supervisor: Client, operator: Client
) -> None:
    """Its page had an action for the last one only, and the others stayed."""
    sky = make_sky(retries=0, on_failure="hold")
    held = [sky.submit() for _ in range(2)]
    for job in sky.poll():
        sky.end(job, AttemptResult(AttemptOutcome.FAILED, status=500, detail="500 no"))
    sky.let_pass(1000)
    sky.poll()
    assert [sky.state(one) for one in held] == ["held", "held"]
    incident = Incident.objects.get(kind="retries_spent")

    jumps = supervisor.get(url(Incident, "change", incident.pk)).context["jumps"]
    (jump,) = [one for one in jumps if one.title == "Resume these 2"]
    rows = supervisor.get(jump.url).context["rows"]
    assert [row.key for row in rows] == [one.pk for one in held]
    jumps = operator.get(url(Incident, "change", incident.pk)).context["jumps"]
    (listed,) = [one for one in jumps if one.title == "Held messages"]
    shown = operator.get(listed.url).context["cl"].result_list
    assert {one.pk for one in shown} == {one.pk for one in held}
