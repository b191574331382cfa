"""The dashboard: suspended partners first, correct figures, heartbeats of the processes."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh import health
from msh.models import ApiToken, OutboundLink
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.operations.operator_actions import open_missing_links
from partners.models import Partner
from tests.admin.conftest import client_of, suspended_world, url, waiting_world
from tests.flows.flying import sky_of_five
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:index")

SEES = ("view_outboundlink", "view_outboundmessage", "view_incident")


@pytest.fixture
def onlooker() -> Client:
    return client_of("olaf", *SEES)


def figures(client: Client) -> dict[str, int]:
    return {figure.name: figure.value for figure in client.get(PAGE).context["figures"]}


def test_suspended_partners_come_after_the_figures_with_cause_and_message(onlooker: Client) -> None:
    world = suspended_world(queued=2)

    page = onlooker.get(PAGE).content.decode()

    message = reverse("admin:msh_outboundmessage_change", args=[world.link.in_flight_id])
    places = [
        page.index(f'id="{name}"') for name in ("figures", "suspended", "incidents", "health")
    ]
    assert places == sorted(places)
    assert "The partner refused the message permanently" in page
    assert "no &lt;b&gt;thanks&lt;/b&gt;" in page
    assert f'href="{message}"' in page
    assert "<td>2<span" in page
    assert reverse("admin:msh_outboundlink_resume", args=[world.link.pk]) not in page


def test_a_suspended_partner_is_shown_with_its_last_answer(onlooker: Client) -> None:
    world = make_world(retries=0)
    world.submit()
    (job,) = world.poll()
    world.end(job, AttemptResult(AttemptOutcome.FAILED, status=503, detail="503 <down>"))
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()

    page = onlooker.get(PAGE).content.decode()

    assert '<bdi class="msh-verbatim">503 &lt;down&gt;</bdi>' in page


def test_resume_is_offered_on_the_dashboard_if_permitted() -> None:
    world = suspended_world()

    page = client_of("ann", *SEES, "resume_outboundlink").get(PAGE).content.decode()

    assert reverse("admin:msh_outboundlink_resume", args=[world.link.pk]) in page


def test_figures_count_messages_and_links(onlooker: Client) -> None:
    suspended_world(queued=2)
    waiting_world()

    assert figures(onlooker) == {
        "Suspended partners": 1,
        "Open incidents": 1,
        "In flight": 1,
        "Queued": 2,
        "Held": 0,
        "Undelivered": 0,
        "In doubt": 0,
        "Parked": 0,
        "Blocked": 0,
    }


@pytest.mark.requirement("EB-085")
def test_messages_that_fly_are_counted_by_their_state(onlooker: Client) -> None:
    sky = sky_of_five()

    shown = figures(onlooker)

    assert (shown["In flight"], shown["Queued"], shown["Held"]) == (1, 1, 1)
    assert "oldest" in next(
        one.note for one in onlooker.get(PAGE).context["figures"] if one.name == "Queued"
    )
    OutboundLink.objects.filter(pk=sky.link.pk).update(failures=2)
    health_of = {one.name: one.words for one in onlooker.get(PAGE).context["health"]}
    assert health_of[sky.partner.name] == "retrying"


def test_partner_health_lists_problems_first(onlooker: Client) -> None:
    """Also those that have exchanged nothing yet."""
    unused = make_world()
    suspended = suspended_world()
    open_missing_links()

    strip = onlooker.get(PAGE).context["health"]

    others = sorted(one.name for one in (unused.here, unused.there, suspended.here))
    assert [(one.name, one.state) for one in strip] == [
        (suspended.there.name, "suspended"),
        *((name, "ok") for name in others),
    ]


def test_partner_whom_an_operator_stopped_is_not_ok(onlooker: Client) -> None:
    """And comes before one that only waits for an Acknowledgement."""
    refused, held, busy = make_world(), make_world(), waiting_world()
    open_missing_links()
    Partner.objects.filter(pk=refused.there.pk).update(accepts=False)
    Partner.objects.filter(pk=held.there.pk).update(delivers=False)

    strip = onlooker.get(PAGE).context["health"]

    assert [(one.name, one.sign, one.words) for one in strip[:2]] == [
        (refused.there.name, "N", "submissions are refused by an operator"),
        (held.there.name, "H", "deliveries are held by an operator"),
    ]
    assert busy.there.name in {one.name for one in strip if one.state == "ok"}


def test_missing_heartbeats_are_shown_first(onlooker: Client) -> None:
    redis = health._redis()
    redis.delete(health._SWEPT, health._BEATEN)
    assert "No heartbeat from worker" in onlooker.get(PAGE).content.decode()

    redis.set(health._SWEPT, 1, ex=health._REMEMBERED)
    redis.set(health._BEATEN, 1, ex=health._REMEMBERED - 60)
    page = onlooker.get(PAGE).content.decode()
    assert "No heartbeat from beat" in page
    assert "No heartbeat from worker" not in page
    another = onlooker.get(url(OutboundLink, "changelist")).content.decode()
    assert "No heartbeat from beat" in another

    redis.set(health._SWEPT, 1, ex=health._REMEMBERED)
    health.note_beat()
    assert "No heartbeat" not in onlooker.get(PAGE).content.decode()


def test_without_the_rights_nothing_is_shown() -> None:
    world = suspended_world()

    page = client_of("nobody").get(PAGE).content.decode()

    assert world.there.name not in page
    assert "Ask an administrator for a role" in page


def test_tokens_that_expire_are_named_under_the_figures(
    administrator: Client, onlooker: Client
) -> None:
    user = User.objects.create_user("machine")
    soon = timezone.now() + timedelta(days=1)
    ApiToken.objects.create(name="shop", user=user, expires=soon, sha256="x", scopes=["read"])
    page = administrator.get(PAGE).content.decode()
    texts = ('id="figures"', "API tokens that expire", 'id="suspended"')
    places = [page.index(text) for text in texts]
    assert places == sorted(places)
    assert "API tokens that expire" not in onlooker.get(PAGE).content.decode()
