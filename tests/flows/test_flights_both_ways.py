"""Two of our MSHs in one database: what one sends in ebMS 2.0 the other takes and acknowledges."""

from datetime import timedelta

import pytest
from django.db.models.functions import Coalesce
from django.test import override_settings
from django.utils import timezone

from msh.flows.operations.prune import prune_all
from msh.flows.receiving import ebms2
from msh.flows.receiving.incoming import Incoming
from msh.models import Attempt, Flight, InboundMessage, OutboundMessage
from partners.models import Agreement

from . import byhand
from .flying import Sky, make_sky, mirror_of

pytestmark = pytest.mark.django_db

DAY = 86400


@pytest.mark.requirement("EB-079", "EB-100")
def test_a_message_is_taken_once_and_acknowledged(sky: Sky) -> None:
    mirror = mirror_of(sky)
    sent = [sky.submit(f"<order n='{n}'/>") for n in range(3)]
    jobs = sky.poll()
    for job in (*jobs, jobs[0]):  # one copy comes twice
        assert ebms2.receive(mirror, Incoming(job.content_type, job.body)).status == 204
    for job in jobs:
        sky.end(job)

    answers = byhand.poll()
    assert {job.partner_id for job in answers} == {mirror.pk}
    for job in answers:
        assert ebms2.receive(sky.partner, Incoming(job.content_type, job.body)).status == 204

    assert [sky.state(message) for message in sent] == ["acknowledged"] * 3
    taken = InboundMessage.objects.filter(link__partner=mirror).order_by("pk")
    assert list(taken.values_list("message_id", flat=True)) == [one.message_id for one in sent]
    assert not Flight.objects.exists()


@pytest.mark.requirement("EB-120", "EB-127", "EB-134")
def test_conversations_arrive_in_order_whatever_the_wire_does() -> None:
    sky = make_sky(ordered=True)
    mirror = mirror_of(sky)
    Agreement.objects.filter(partner=mirror).update(ordered=True)
    sent = [sky.submit(conversation_id=name) for name in ("a", "b", "a", "a", "b", "a")]
    while jobs := sky.poll():
        for job in reversed(jobs):
            assert ebms2.receive(mirror, Incoming(job.content_type, job.body)).status == 204
            sky.end(job)
        for answer in byhand.poll():
            assert (
                ebms2.receive(sky.partner, Incoming(answer.content_type, answer.body)).status == 204
            )

    assert [sky.state(message) for message in sent] == ["acknowledged"] * 6
    taken = InboundMessage.objects.filter(link__partner=mirror).order_by(Coalesce("turn", "id"))
    for name in ("a", "b"):
        in_order = [one.message_id for one in sent if one.conversation_id == name]
        rows = taken.filter(conversation_id=name)
        assert list(rows.values_list("message_id", "state")) == [
            (one, "accepted") for one in in_order
        ]
    assert sky.incidents() == []


@pytest.mark.requirement("EB-102")
@pytest.mark.parametrize(
    ("settings", "days"),
    [({"persist_duration": 30 * DAY}, 30), ({"retries": 4, "retry_interval": DAY // 2}, 20)],
    ids=["PersistDuration", "ten times the retries"],
)
def test_the_id_of_a_message_stays_as_long_as_a_copy_may_come(
    sky: Sky, settings: dict[str, int], days: int
) -> None:
    mirror = mirror_of(sky)
    brief = {"timeout": 1, "retries": 0, "transient_time_limit": 1}
    Agreement.objects.filter(partner=mirror).update(**brief | settings)
    _, job = sky.start()
    ebms2.receive(mirror, Incoming(job.content_type, job.body))
    with override_settings(MSH_KEEP_MESSAGES=1):
        for age, left in ((days - 1, 1), (days + 1, 0)):
            delivered_at = timezone.now() - timedelta(days=age)
            InboundMessage.objects.update(state="delivered", delivered_at=delivered_at)
            prune_all()
            assert InboundMessage.objects.count() == left


def test_what_has_flown_is_removed_by_retention(sky: Sky) -> None:
    message, job = sky.start()
    sky.end(job)
    sky.answer(message)
    long_ago = timezone.now() - timedelta(days=800)
    OutboundMessage.objects.update(completed_at=long_ago, submitted_at=long_ago)
    message.events.update(delivered_at=long_ago)
    prune_all()
    assert not OutboundMessage.objects.exists()
    assert not Attempt.objects.exists()
