"""What the dashboard says of suspended partners and standing deliveries: one line each, equal
causes together, and as many statements for 300 as for 7."""

import re
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from msh import roles
from msh.admin.dashboard.suspended import Member, Suspended
from msh.admin.framework.markup import page_url
from msh.flows.operations import change_link, maintenance
from msh.flows.operations.inspection.causes import CAUSES
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.models import (
    Delivery,
    InboundMessage,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason
from msh.store.history import Actor
from partners.models import Partner
from tests.admin.conftest import client_of, client_with_role, waiting_world
from tests.admin.links.conversations import stop
from tests.admin.many import (
    REFUSED_CONNECTION,
    UNAUTHORIZED,
    answered,
    standing_deliveries,
    suspended_partners,
)
from tests.flows.flying import make_sky

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:index")
ANN = Actor("ann", "their data centre moves")
FAILS = answered(500, "500 Internal Server Error: " + "x" * 100)


def plan_window(partner: Partner) -> None:
    """That runs now."""
    now = timezone.now()
    ends = now + timedelta(hours=1)
    maintenance.plan(partner, ANN, starts_at=now - timedelta(minutes=1), ends_at=ends)


def shown_to(client: Client) -> Suspended:
    found: Suspended = client.get(PAGE).context["suspended"]
    return found


def test_equal_causes_are_one_group_with_one_action(supervisor: Client, operator: Client) -> None:
    now = timezone.now()
    suspended_partners(3, UNAUTHORIZED, since=now - timedelta(hours=2), queued=1)
    suspended_partners(5, since=now - timedelta(hours=1))
    (failing,) = suspended_partners(1, FAILS)

    shown = shown_to(supervisor)

    assert [(group.count, group.cause.title, group.queued) for group in shown.groups] == [
        (5, "No connection to the partner", 10),
        (3, "The partner refuses our credentials", 3),
    ]
    assert shown.groups[1].answers == [(3, "401 Unauthorized")]
    assert "cause=retries_spent.connection" in shown.groups[0].resume
    assert [line.link for line in shown.lines] == [failing]
    assert len(shown.lines[0].answer) == 81
    assert [group.resume for group in shown_to(operator).groups] == ["", ""]


def test_resume_these_counts_what_its_preview_selects(supervisor: Client) -> None:
    links = suspended_partners(5)
    for link in links[:2]:
        plan_window(link.partner)
    last = OutboundMessage.objects.filter(link=links[2]).latest("pk").pk
    for link in links[1:3]:
        cancel_queue(link, ANN, last, uuid4())

    response = supervisor.get(PAGE)

    (group,) = response.context["suspended"].groups
    rows = supervisor.get(group.resume).context["rows"]
    assert group.resumes == sum(not row.why_not for row in rows) == 2
    assert group.left_out == "not 1 in maintenance and 2 whose queue is to be cancelled"
    assert "Resume 2 of these …" in response.content.decode()
    assert group.left_out in response.content.decode()


def test_group_of_which_none_is_to_be_resumed_has_no_button(supervisor: Client) -> None:
    for link in suspended_partners(3):
        plan_window(link.partner)

    (group,) = shown_to(supervisor).groups

    assert (group.resume, group.left_out) == ("", "not 3 in maintenance")


def test_numbers_out_of_sync_are_resynchronised_from_the_dashboard(supervisor: Client) -> None:
    """What the Error Message said is shown, not the answer to the copy before it."""
    (link,) = suspended_partners(1, answered(204, "204 No Content"))
    OutboundLink.objects.filter(pk=link.pk).update(
        suspended_for=IncidentKind.RESYNCHRONISE,
        suspended_detail="SequenceGap: expected 13",
        suspended_reason=Reason.NUMBERS,
    )

    (line,) = shown_to(supervisor).lines

    assert line.answer == "SequenceGap: expected 13"
    assert [offer.action.title for offer in line.offers] == ["Resynchronise and resume"]
    assert line.offers[0].recommended


def test_a_group_that_resuming_does_not_help_is_not_resumed(supervisor: Client) -> None:
    suspended_partners(3, answered(204, "204 No Content: no", Reason.NUMBERS))

    (group,) = shown_to(supervisor).groups

    assert group.cause.title == "Sequence numbers out of sync with the partner"
    assert group.resume == ""


def test_a_group_names_who_has_the_longest_queue_and_who_is_down_longest(
    operator: Client,
) -> None:
    """300 suspended partners have 10 queued each, one of them has 20,000: one click opens it."""
    now = timezone.now()
    suspended_partners(4, queued=1)
    (oldest,) = suspended_partners(1, since=now - timedelta(hours=2), queued=1)
    (large,) = suspended_partners(1, queued=30)

    response = operator.get(PAGE)
    (group,) = response.context["suspended"].groups

    assert group.largest == group.members[0] == Member(str(large.partner), page_url(large), 30)
    assert group.longest == Member(str(oldest.partner), page_url(oldest), 1)
    page = response.content.decode()
    for which, link in (("largest", large), ("longest", oldest)):
        url = page_url(link)
        assert f'<a href="{url}" id="{which}:{url}" class="text-link">{link.partner}</a>' in page
    assert f"{large.partner}</a>: 30 queued</li>" in page


def test_a_group_names_whom_to_call_a_line_for_each_partner(operator: Client) -> None:
    one, *_ = suspended_partners(3)
    Partner.objects.filter(pk=one.partner.pk).update(contact="Ms <Ray>", phone="+44 1 23")

    page = operator.get(PAGE).content.decode()

    row = page[page.index('<tr class="msh-members"><td colspan="6">') :]
    row = row[: row.index("</tr>")]
    assert row.count("<li>") == 3
    assert f"{one.partner}</a>: <bdi>Ms &lt;Ray&gt;, +44 1 23</bdi></li>" in row


def test_of_answers_of_which_no_two_are_alike_one_is_shown(viewer: Client) -> None:
    """Each partner has an address of its own: three lines of them say no more than one."""
    for port in range(4):
        refused = f"Cannot connect to 127.0.0.1:{8000 + port}: Connection refused"
        suspended_partners(1, replace(REFUSED_CONNECTION, detail=refused))
    page = viewer.get(reverse("admin:index"))
    (group,) = page.context["suspended"].groups
    assert ([times for times, _ in group.answers], group.other_answers) == ([1], 3)
    assert "and 3 other answers" in page.content.decode()


def test_a_group_of_equals_names_nobody(operator: Client) -> None:
    suspended_partners(3)

    (group,) = shown_to(operator).groups

    assert (group.largest, group.longest) == (None, None)


def test_a_partner_is_down_since_its_first_suspension(operator: Client) -> None:
    """A resume in vain opens another incident; `suspended_since` begins again."""
    now = timezone.now()
    first, second, again = (now - timedelta(minutes=left) for left in (60, 40, 20))
    (link,) = suspended_partners(1, UNAUTHORIZED, since=first)
    Incident.objects.filter(partner=link.partner).update(resolved_at=second)
    for at in (second, again):
        Incident.objects.create(
            partner=link.partner, direction="out", kind=IncidentKind.RETRIES_SPENT,
            opened_at=at, last_at=at, resolved_at=None if at is again else again,
        )  # fmt: skip
    OutboundLink.objects.filter(pk=link.pk).update(suspended_since=again)
    old = first - timedelta(days=1)
    Incident.objects.create(
        partner=link.partner, direction="out", kind=IncidentKind.RETRIES_SPENT,
        opened_at=old, last_at=old, resolved_at=old,
    )  # fmt: skip

    (line,) = shown_to(operator).lines

    assert first.isoformat() in line.down_since
    assert "1 h 0 min ago" in line.down_since
    assert (first - timedelta(hours=1)).isoformat() in line.last_ack
    assert line.resumed == 2
    page = operator.get(PAGE).content.decode()
    assert "resumed 2 times" in page
    assert "last Ack" in page


def test_what_operators_suspended_comes_last(operator: Client) -> None:
    moved = waiting_world()
    change_link.suspend(moved.there, Actor("ann", "they move"))
    (failing,) = suspended_partners(1, FAILS)

    shown = shown_to(operator)

    assert [line.link.partner for line in shown.lines] == [failing.partner, moved.there]
    assert shown.lines[1].answer == "ann: they move"


def test_one_line_offers_what_helps_first(operator: Client) -> None:
    suspended_partners(1, UNAUTHORIZED)
    suspended_partners(1)

    page = operator.get(PAGE).content.decode()

    assert page.count("Test connection") == 2
    assert page.count("msh-action-recommended") == 1
    assert page.count("Resume sending") == 2


def test_more_than_fits_is_counted(operator: Client) -> None:
    for status in (204, 400, 401, 404, 500, 502):
        suspended_partners(2, answered(status, f"{status} no"))

    shown = shown_to(operator)

    assert (len(shown.groups), len(shown.lines), shown.others) == (0, 10, 2)


def test_deliveries_that_stand_still_are_beside_the_links(operator: Client) -> None:
    blocked = standing_deliveries("blocked", behind=4, detail="500 cannot write")
    doubtful = standing_deliveries("in_doubt", behind=0)

    page = operator.get(PAGE)

    one, other = page.context["standing"]
    assert (one.first, one.behind, other.first) == (blocked, 4, doubtful)
    assert [offer.action.name for offer in one.offers] == ["run_again", "mark_completed"]
    text = page.content.decode()
    assert "No partner is suspended." in text
    assert "500 cannot write" in text
    figures = {figure.name: figure for figure in page.context["figures"]}
    assert (figures["Undelivered"].value, figures["Blocked"].value) == (6, 1)
    assert "oldest 8 min" in figures["Undelivered"].note


def test_deliveries_of_one_partner_are_not_of_others(operator: Client) -> None:
    parked = standing_deliveries("parked", behind=0)
    another = InboundMessage.objects.get(pk=parked.message.pk)
    another.pk, another.message_id, another.sequence_number = None, "another", 9
    another.save(force_insert=True)
    Delivery.objects.create(
        message=another, consumer=parked.consumer, state="parked",
        attempt=3, started_at=parked.started_at, ended_at=parked.ended_at,
    )  # fmt: skip

    page = operator.get(PAGE)

    (one,) = page.context["standing"]
    assert (one.count, one.other_partners) == (2, 0)
    assert "other partner" not in page.content.decode()


def test_a_group_says_since_when_its_last_partner_is_down(operator: Client) -> None:
    now = timezone.now()
    suspended_partners(2, since=now - timedelta(hours=2))
    suspended_partners(1, since=now - timedelta(minutes=20))

    (group,) = shown_to(operator).groups

    assert "2 h 0 min ago" in group.down_since
    assert "20 min ago" in group.latest


def test_an_incident_is_not_shown_twice(operator: Client) -> None:
    suspended_partners(1)
    delivery = standing_deliveries("blocked", behind=0)
    partner, now = delivery.message.link.partner, timezone.now()
    for kind in (IncidentKind.DELIVERY_FAILED, IncidentKind.BACKLOG):
        Incident.objects.create(
            partner=partner, direction="in", kind=kind, opened_at=now, last_at=now
        )

    page = operator.get(PAGE)
    context = page.context

    assert '<th scope="col">Problem and detail</th>' in page.content.decode()
    assert context["other_incidents"] == 1
    (shown,) = context["incidents"]
    assert shown.cause.title == "The application does not keep up with this partner"
    assert [jump.title for jump in shown.jumps if not jump.busy] == ["Link from partner"]


def test_a_message_and_the_conversation_that_it_stops_are_one_row(operator: Client) -> None:
    sky, other = make_sky(ordered=True), make_sky(ordered=True)
    refused, _ = stop(sky, "talk"), stop(other, "other")
    Incident.objects.filter(partner=other.partner, kind="refused_by_peer").delete()

    response = operator.get(PAGE)

    page, context = response.content.decode(), response.context
    rows = {row.partner: row for row in context["incidents"]}
    assert context["other_incidents"] == len(context["incidents"]) == 2
    row = rows[sky.partner]
    assert row.cause.title == CAUSES["refused_by_peer"].title
    assert [jump.url for jump in row.jumps if not jump.busy] == [page_url(refused)]
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    stopped = Incident.objects.get(partner=sky.partner, kind="conversation_stopped")
    for which, about in (("stops", stopped), ("stopped", conversation)):
        assert f'<a href="{page_url(about)}" id="{which}:{page_url(about)}"' in page
    assert rows[other.partner].cause.title == CAUSES["conversation_stopped"].title
    assert rows[other.partner].stops is None


def test_what_was_done_alone_does_not_hide_a_stopped_conversation(operator: Client) -> None:
    sky = make_sky(ordered=True)
    stop(sky, "talk")
    Incident.objects.filter(kind="refused_by_peer").update(kind=IncidentKind.WENT_AHEAD_ALONE)

    rows = operator.get(PAGE).context["incidents"]

    assert {row.cause.title for row in rows} == {
        CAUSES["conversation_stopped"].title, CAUSES["went_ahead_alone"].title
    }  # fmt: skip
    assert [row.stops for row in rows] == [None, None]


def test_a_stopped_conversation_has_its_row_if_the_message_has_none(operator: Client) -> None:
    """The message is named by the line of its suspended link only."""
    sky = make_sky(ordered=True)
    stop(sky, "talk")
    OutboundLink.objects.filter(pk=sky.link.pk).update(
        state="suspended", suspended_for="refused_by_peer", suspended_since=timezone.now()
    )

    (row,) = operator.get(PAGE).context["incidents"]

    assert row.cause.title == CAUSES["conversation_stopped"].title


def test_300_suspended_take_as_many_statements_as_7() -> None:
    client = client_with_role("sam", roles.SUPERVISOR)

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(PAGE).status_code == 200
        return len(captured)

    suspended_partners(4)
    suspended_partners(2, UNAUTHORIZED)
    suspended_partners(1, FAILS)
    standing_deliveries("blocked", behind=3)
    client.get(PAGE)  # fills Django's own caches
    of_7 = statements()
    suspended_partners(293)
    for state in ("blocked", "in_doubt", "parked"):
        standing_deliveries(state, behind=2)

    assert statements() == of_7
    assert len(client.get(PAGE).content) < 150_000


def test_links_are_stopped_and_not_in_flight_while_suspended() -> None:
    suspended_partners(2)
    client = client_of("olaf", "view_outboundlink", "view_outboundmessage", "view_incident")

    figures = {figure.name: figure for figure in client.get(PAGE).context["figures"]}

    assert figures["In flight"].value == 0
    assert figures["In flight"].note == "2 more suspended"


def test_every_form_that_posts_has_its_token(administrator: Client) -> None:
    """The forms are in templates that are included with nothing of their page."""
    (link,) = suspended_partners(1)
    incident = Incident.objects.get(partner=link.partner)
    here = reverse("partner_page", args=[link.partner_id])
    for page in (PAGE, page_url(link), page_url(incident), here):
        text = administrator.get(page).content.decode()
        forms = re.findall(r'<form[^>]*method="post".*?</form>', text, re.DOTALL)
        assert [form for form in forms if "csrfmiddlewaretoken" not in form] == [], page
        if page == PAGE:
            assert any("Test connection" in form for form in forms)
