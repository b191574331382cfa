"""What operators are called for, and with which words: one condition at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.alerts import store as notices
from msh.alerts.flows.announce import make_notices
from msh.alerts.models import OperatorNotice
from msh.models import Attempt, Incident, OutboundLink
from msh.protocol.attempt import AttemptOutcome, AttemptResult

from .recovering import suspend
from .world import World, late_world, make_world

pytestmark = pytest.mark.django_db

NOW = timezone.now()
EMAIL = notices.Due("email")
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
DOWN = AttemptResult(AttemptOutcome.FAILED, status=503, detail="503 down")
DOUBTED = AttemptResult(AttemptOutcome.DOUBTED, status=404, detail="404 not here")


def sent_notices(**which: Any) -> list[str]:
    make_notices(["email"])
    return list(OperatorNotice.objects.filter(**which).values_list("detail", flat=True))


@pytest.mark.parametrize(
    ("retries_spent", "retries", "early_warning", "warned"),
    [
        (0, 4, 0, False),
        (1, 4, 0, False),
        (2, 4, 0, True),
        (3, 4, 0, True),
        (4, 4, 0, False),
        (1, 4, 1, True),
        (2, 4, 3, False),
        (3, 4, 3, True),
        (0, 1, 0, False),
        (1, 1, 0, False),  # none remains: the incident comes next
        (0, 0, 0, False),
        (2, 3, 0, True),
        (1, 2, 0, True),
        (3, 3, 3, False),
        (2, 1, 0, False),  # a probe: the incident is open
    ],
)
def test_message_is_late_at_the_agreed_retry_or_after_half(
    retries_spent: int, retries: int, early_warning: int, warned: bool
) -> None:
    late_world(retries_spent, retries, early_warning)
    assert len(sent_notices(kind="early_warning")) == warned


@pytest.mark.parametrize(
    ("state", "result", "warned"),
    [
        ("waiting", DOUBTED, True),
        ("transient", DOUBTED, True),
        ("waiting", DOWN, False),
        ("suspended", DOUBTED, False),
    ],
)
def test_a_doubtful_answer_warns_at_once(state: str, result: AttemptResult, warned: bool) -> None:
    world = late_world(0, result=result)
    if state == "suspended":
        suspend(world)
    else:
        OutboundLink.objects.filter(pk=world.link.pk).update(state=state)
    assert len(sent_notices(kind="early_warning")) == warned


# --- incidents ------------------------------------------------------------------------------------


def opened(world: World, **values: Any) -> Incident:
    given = {"direction": "out", "kind": "retries_spent", "detail": "no Acknowledgement"} | values
    given.setdefault("message_id", world.link.in_flight.message_id)  # type: ignore[union-attr]
    return Incident.objects.create(partner=world.there, opened_at=NOW, last_at=NOW, **given)


def attempt(world: World, number: int, detail: str, *, ended: bool = True) -> None:
    message = world.link.in_flight
    assert message is not None
    Attempt.objects.create(
        message=message,
        number=number,
        claimed_at=NOW,
        ended_at=NOW if ended else None,
        detail=detail,
    )


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({}, "; last answer: 503 busy"),
        ({"direction": "in"}, ""),
        ({"message_id": "another"}, ""),
        ({"detail": "503 busy"}, ""),
    ],
)
def test_notice_has_the_last_answer_to_the_message(values: dict[str, str], answer: str) -> None:
    """Not with one that has not ended, nor that of another partner."""
    other, world = late_world(0, result=DOUBTED), late_world(0, result=DOWN)
    attempt(world, 2, "503 busy")
    attempt(world, 3, "404 not here", ended=False)
    opened(world, **values)
    (detail,) = sent_notices(kind="retries_spent")
    assert detail == values.get("detail", "no Acknowledgement") + answer
    assert other.link.in_flight is not None


def test_only_an_incident_that_was_not_announced_is() -> None:
    """What was open before anybody was named is not told."""
    world = late_world(0, result=DOWN)
    before = opened(world, announced=True, kind="stuck")
    fresh = opened(world)
    sent_notices()
    incidents = OperatorNotice.objects.values_list("incident", flat=True)
    assert list(incidents) == [fresh.pk]
    before.refresh_from_db()
    fresh.refresh_from_db()
    assert before.announced
    assert fresh.announced


# --- claims ---------------------------------------------------------------------------------------


def notice(cause: str, **values: Any) -> OperatorNotice:
    given = {"channel": "email", "at": NOW, "due": NOW} | values
    return OperatorNotice.objects.create(
        cause=cause, partner=make_world().there, kind="stuck", **given
    )


@pytest.mark.parametrize(
    ("values", "claimed"),
    [
        ({}, True),
        ({"channel": "webhook"}, False),
        ({"to": "somebody"}, False),
        ({"sent_at": NOW}, False),
        ({"given_up": True}, False),
        ({"due": NOW + timedelta(days=1)}, False),
    ],
)
def test_a_notice_is_claimed_while_it_is_due(values: dict[str, Any], claimed: bool) -> None:
    made = notice("cause", **values)
    assert notices.claim_notices(EMAIL, 50, HOUR) == ([made] if claimed else [])
    assert notices.claim_notices(EMAIL, 50, HOUR) == [], "the lease is not over"


def test_the_notices_that_are_due_longest_are_claimed_first() -> None:
    made = [notice(f"cause {n}", due=NOW - n * SECOND) for n in (1, 3, 2)]
    assert {one.pk for one in notices.claim_notices(EMAIL, 2, HOUR)} == {made[1].pk, made[2].pk}
