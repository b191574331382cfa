"""The wall: the worst first, what is filled on the dashboard, and a session that lasts."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from msh import health, roles
from msh.admin.framework.sessions import SEEN
from msh.flows.operations import change_link
from msh.models import Incident, OutboundLink
from msh.protocol.kinds import IncidentKind
from msh.protocol.severity import Severity, weight
from msh.store.history import Actor
from tests.admin.conftest import client_of, client_with_role, waiting_world
from tests.admin.many import (
    UNAUTHORIZED,
    answered,
    standing_deliveries,
    suspended_partners,
)

pytestmark = pytest.mark.django_db

WALL, PAGE = reverse("wall"), reverse("admin:index")
FAILS = answered(500, "500 Internal Server Error")


@pytest.fixture
def viewer() -> Client:
    return client_with_role("vera", roles.VIEWER)


def test_the_worst_is_first(viewer: Client) -> None:
    """Severity, queue and age count, whatever kind of trouble it is."""
    now = timezone.now()
    hour = now - timedelta(hours=1)
    (short,) = suspended_partners(1, FAILS, since=now - timedelta(minutes=10), queued=1)
    (large,) = suspended_partners(1, FAILS, since=hour, queued=20)
    blocked = standing_deliveries("blocked", behind=5, since=hour)
    parked = standing_deliveries("parked", behind=0, since=hour)
    moved = waiting_world()
    change_link.suspend(moved.there, Actor("ann", "they move"))

    rows = viewer.get(WALL).context["rows"]

    assert [(one.who, one.severity, one.waiting) for one in rows] == [
        (large.partner.name, "critical", 20),
        (blocked.consumer.name, "critical", 6),
        (short.partner.name, "critical", 1),
        (parked.consumer.name, "warning", 1),
        (moved.there.name, "info", 0),
    ]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ((Severity.WARNING, 3, 5), (Severity.CRITICAL, 3, 5)),
        ((Severity.WARNING, 3, 5), (Severity.WARNING, 4, 5)),
        ((Severity.WARNING, 3, 5), (Severity.WARNING, 3, 6)),
        ((Severity.CRITICAL, 0, 0), (Severity.INFO, 200, 9)),
        ((Severity.INFO, 0, -5), (Severity.INFO, 0, 1)),
    ],
)
def test_a_weight_grows_with_severity_queue_and_age(
    better: tuple[Severity, int, int], worse: tuple[Severity, int, int]
) -> None:
    (of_better, of_worse) = (
        weight(severity, waiting, timedelta(minutes=minutes))
        for severity, waiting, minutes in (better, worse)
    )
    assert of_better < of_worse


def test_the_wall_says_who_has_it(viewer: Client) -> None:
    (link,) = suspended_partners(1, FAILS)
    assert "nobody has it" in viewer.get(WALL).content.decode()
    Incident.objects.filter(partner=link.partner).update(assigned_to="<olga>")
    assert "<bdi>&lt;olga&gt;</bdi> has it" in viewer.get(WALL).content.decode()


def test_a_quiet_wall_and_a_silent_process(viewer: Client) -> None:
    waiting_world()
    redis = health._redis()
    redis.set(health._SWEPT, 1, ex=health._REMEMBERED)
    redis.delete(health._BEATEN)
    text = viewer.get(WALL).content.decode()
    assert "Nothing stands still." in text
    assert "No heartbeat from beat." in text
    assert 'id="nav-sidebar"' not in text


def test_the_scheme_of_the_wall_is_chosen_by_its_address(viewer: Client) -> None:
    assert "theme('dark')" in viewer.get(WALL, {"theme": "dark"}).content.decode()
    assert "theme('blue')" not in viewer.get(WALL, {"theme": "blue"}).content.decode()


def test_who_may_not_see_the_dashboard_sees_no_wall() -> None:
    (link,) = suspended_partners(1)
    text = client_of("nobody").get(WALL).content.decode()
    assert link.partner.name not in text
    assert "Ask an administrator for a role" in text
    assert Client().get(WALL).status_code == 302


def test_a_wall_takes_no_more_statements_for_3_than_for_1(viewer: Client) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert viewer.get(WALL).status_code == 200
        return len(captured)

    def trouble() -> None:
        suspended_partners(1, FAILS)
        standing_deliveries("blocked", behind=1)
        (link,) = suspended_partners(1, UNAUTHORIZED)
        OutboundLink.objects.filter(pk=link.pk).update(
            state="idle", in_flight=None, suspended_since=None
        )

    trouble()
    viewer.get(WALL)
    of_1 = statements()
    trouble()
    trouble()
    assert statements() <= of_1


# --- The dashboard -------------------------------------------------------------------------------


def test_one_button_of_the_dashboard_is_filled_and_it_acts() -> None:
    """F24 of the review of the console: of 13 filled buttons 8 only led to another page."""
    suspended_partners(2, FAILS)
    suspended_partners(2)
    delivery = standing_deliveries("blocked", behind=3)
    for kind in (IncidentKind.BACKLOG, IncidentKind.NO_CONSUMER):
        now = timezone.now()
        Incident.objects.create(
            partner=delivery.message.link.partner, direction="in", kind=kind,
            opened_at=now, last_at=now,
        )  # fmt: skip
    for role in (roles.OPERATOR, roles.ADMINISTRATOR):
        client = client_with_role(f"x{len(role)}", role)
        page = client.get(PAGE)
        assert page.content.decode().count("msh-action-recommended") == 1
        context = page.context
        jumps = [jump for one in context["incidents"] for jump in one.jumps]
        assert [jump.title for jump in jumps if jump.recommended and not jump.busy] == []


def test_who_may_not_act_on_a_line_is_told_who_may(viewer: Client, operator: Client) -> None:
    suspended_partners(3)
    suspended_partners(1, FAILS)
    standing_deliveries("blocked", behind=0)
    context = viewer.get(PAGE).context
    (group,), (line,) = context["suspended"].groups, context["suspended"].lines
    (stopped,) = context["standing"]
    assert group.ask.endswith("ask a user with the role Supervisor.")
    for one in (line, stopped):
        assert one.ask.endswith("ask a user with the role Operator.")
    text = operator.get(PAGE).content.decode()
    assert group.ask in text
    assert line.ask not in text


def test_who_may_test_but_not_mend_is_told_who_may(operator: Client) -> None:
    """To resume alone does not help: our credentials are refused."""
    suspended_partners(1, UNAUTHORIZED)
    (line,) = operator.get(PAGE).context["suspended"].lines
    assert [jump.title for jump in line.advice.jumps] == ["Test connection"]
    assert "ask a user with the role Administrator." in operator.get(PAGE).content.decode()


def test_what_is_zero_is_on_one_line(viewer: Client) -> None:
    suspended_partners(1, FAILS, queued=2)
    text = viewer.get(PAGE).content.decode()
    zeros = text.partition("msh-zeros")[2].partition("</p>")[0]
    assert "Parked" in zeros
    assert "Queued" not in zeros
    assert text.count('class="msh-figure') - text.count('class="msh-figures') == 3


# --- Its session ---------------------------------------------------------------------------------


def seen_after(client: Client, where: str) -> bool:
    """Whether a refresh of this page by itself lengthens the session."""
    session = client.session
    session[SEEN] = 0
    session.save()
    client.get(where, headers={"HX-Request": "true"})
    return bool(client.session[SEEN])


def test_the_session_of_a_wall_lasts_while_it_is_shown(viewer: Client) -> None:
    assert seen_after(viewer, WALL)
    assert not seen_after(viewer, PAGE)


def test_a_wall_of_somebody_who_may_act_is_no_exception(operator: Client) -> None:
    """Who passes by could resume a partner, or read a payload."""
    assert not seen_after(operator, WALL)
    reader = client_of("rita", "view_outboundlink", "view_payload_inboundmessage")
    assert not seen_after(reader, WALL)
    root = User.objects.create_superuser("root")
    client = Client()
    client.force_login(root, backend="django.contrib.auth.backends.ModelBackend")
    assert not seen_after(client, WALL)
