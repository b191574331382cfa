"""The queue of a link is cancelled by a job, set by set, while the link goes on."""

from collections.abc import Mapping

import pytest
from django.test import Client
from pytest_django import Settings

from msh import roles
from msh.flows.errors import SecondPersonNeeded
from msh.flows.operations.many import bulk_jobs, cancel_queue
from msh.models import ActRequest, BulkItem, BulkJob, History, OutboundMessage
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from msh.store.operations.bulk_jobs import end_items
from tests.admin.conftest import address, client_with_role, messages_of, suspended_world, url, use

pytestmark = pytest.mark.django_db


def states() -> list[str]:
    return list(OutboundMessage.objects.order_by("pk").values_list("state", flat=True))


def test_the_dialog_counts_and_the_job_cancels_what_was_counted(supervisor: Client) -> None:
    world = suspended_world(queued=3)
    opened = supervisor.get(address("cancel_queue", world.link))
    assert "3 messages to" in opened.content.decode()
    assert "24" in opened.content.decode(), "bytes"
    hidden = {one.name: one.value() for one in opened.context["form"].hidden_fields()}
    world.submit()
    done = supervisor.post(
        address("cancel_queue", world.link), {**hidden, "reason": "wrong prices"}
    )
    assert "cancels 3 messages" in messages_of(done)
    again = supervisor.post(
        address("cancel_queue", world.link), {**hidden, "reason": "wrong prices"}
    )
    assert "cancels 3 messages" in messages_of(again), "a double click starts one job"
    job = BulkJob.objects.get()
    assert bulk_jobs.run() == 3
    assert states() == ["in_flight", "cancelled", "cancelled", "cancelled", "queued"]
    page = supervisor.get(url(BulkJob, "change", job.pk)).content.decode()
    assert "Now: 3 cancelled." in page
    acts = History.objects.filter(event="MessageCancelled")
    assert {(row.actor, f"bulk job {job.pk}" in row.detail) for row in acts} == {("sue", True)}


def test_what_the_link_sends_meanwhile_is_left_and_told(supervisor: Client) -> None:
    world = suspended_world(queued=2)
    use(supervisor, "cancel_queue", world.link, "wrong prices")
    use(supervisor, "resume", world.link)
    world.settle()
    bulk_jobs.run()
    assert states() == ["acknowledged"] * 3
    job = BulkJob.objects.get()
    assert (job.state, job.done, job.refused) == ("done", 0, 2)
    details = BulkItem.objects.values_list("detail", flat=True)
    assert all("has already ended" in detail for detail in details)


def test_a_job_goes_on_after_its_worker_was_killed(
    supervisor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = suspended_world(queued=3)
    use(supervisor, "cancel_queue", world.link, "wrong prices")
    ended: list[int] = []

    def dying(job: int, why_not: Mapping[int, str]) -> None:
        end_items(job, why_not)
        ended.append(len(why_not))
        if len(ended) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(bulk_jobs, "FIRST", 2)
    monkeypatch.setattr(bulk_jobs, "end_items", dying)
    with pytest.raises(KeyboardInterrupt):
        bulk_jobs.run()
    assert ended == [2, 1]
    assert states().count("cancelled") == 2, "a set and its marks are one transaction"
    monkeypatch.setattr(bulk_jobs, "end_items", end_items)
    assert bulk_jobs.run() == 1
    assert states() == ["in_flight", *["cancelled"] * 3]


def test_more_than_a_job_takes_stay(supervisor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    world = suspended_world(queued=3)
    monkeypatch.setattr(bulk_jobs, "LIMIT", 2)
    cancel_queue.cancel_queue(world.link, Actor("sue", "wrong"), last=2**62)
    assert BulkJob.objects.get().total == 2


def test_who_may_not_cancel_or_act_on_many_has_no_such_dialog(operator: Client) -> None:
    world = suspended_world(queued=1)
    assert operator.get(address("cancel_queue", world.link)).status_code == 403
    assert "Cancel queue" not in operator.get(address("suspend", world.link)).content.decode()


def test_a_second_person_confirms_where_there_is_a_rule(
    settings: Settings, supervisor: Client
) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world = suspended_world(queued=2)
    said = messages_of(use(supervisor, "cancel_queue", world.link, "wrong prices"))
    assert "a second person must" in said
    assert not BulkJob.objects.exists()
    (asked,) = ActRequest.objects.all()
    _, last = OutboundMessage.objects.filter(state="queued").order_by("pk")
    assert f"now 2 messages, the last one {last.message_id}, is cancelled" in asked.text
    assert asked.facts == f"the queue ends with {last.message_id}"
    use(supervisor, "cancel", last)
    world.submit()
    lee = client_with_role("lee", roles.SUPERVISOR)
    done = messages_of(use(lee, "confirm", asked, "seen it too"))
    assert "cancels 1 messages" in done, "the other one was cancelled meanwhile"
    bulk_jobs.run()
    assert states() == ["in_flight", "cancelled", "cancelled", "queued"]


def test_a_request_for_all_that_is_queued_names_the_last_one(settings: Settings) -> None:
    settings.MSH_SECOND_PERSON = ["bulk_cancel"]
    world = suspended_world(queued=2)
    with pytest.raises(SecondPersonNeeded) as needed:
        cancel_queue.cancel_queue(world.link, Actor("sue", "wrong"), last=2**62)
    last = OutboundMessage.objects.latest("pk")
    act = needed.value.proposal.act
    assert (act.parameters["last"], act.facts.split()[-1]) == (last.pk, last.message_id)


def test_what_is_behind_the_limit_is_not_cancelled_in_place_of_what_was_sent(
    supervisor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = suspended_world(queued=3)
    monkeypatch.setattr(bulk_jobs, "LIMIT", 2)
    opened = supervisor.get(address("cancel_queue", world.link))
    assert "2 messages to" in opened.content.decode()
    assert "1 later ones stay in the queue." in opened.content.decode()
    sizes = OutboundMessage.objects.order_by("pk").values_list("size", flat=True)
    assert cancel_queue.queue_of(world.link).size == sum(sizes[1:3])
    hidden = {one.name: one.value() for one in opened.context["form"].hidden_fields()}
    first = OutboundMessage.objects.filter(state="queued").earliest("pk")
    use(supervisor, "cancel", first)
    done = supervisor.post(address("cancel_queue", world.link), {**hidden, "reason": "wrong"})
    assert "cancels 1 messages" in messages_of(done)
    bulk_jobs.run()
    assert states() == ["in_flight", "cancelled", "cancelled", "queued"]


def test_the_dialog_says_what_is_cancelled_and_what_the_link_does(supervisor: Client) -> None:
    world = suspended_world(queued=3)
    one = OutboundMessage.objects.filter(state="queued").latest("pk")
    OutboundMessage.objects.filter(pk=one.pk).update(service_interface="<Forecasts>")
    flying = OutboundMessage.objects.get(state="in_flight")
    page = supervisor.get(address("cancel_queue", world.link)).content.decode()

    assert f"2 x {flying.service_interface} / {flying.action}, 1 x &lt;Forecasts&gt; /" in page
    assert "the oldest since" in page
    assert "the newest since" in page
    assert "The link is suspended and stays so" in page
    assert "stays active" not in page
    assert f'href="{address("cancel", world.link)}" class="text-link">cancel it, too' in page

    use(supervisor, "cancel", world.link, verdict=Verdict.RECEIVED)
    page = supervisor.get(address("cancel_queue", world.link)).content.decode()
    assert "cancel it, too" not in page
    use(supervisor, "resume", world.link)
    page = supervisor.get(address("cancel_queue", world.link)).content.decode()
    assert "The link stays active" in page
