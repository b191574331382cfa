"""The list of incidents: the worst first, with the cause that the dashboard says."""

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import Incident
from msh.store import incidents
from tests.admin.conftest import client_of, page_of, suspended_world, url
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_the_worst_and_oldest_come_first(administrator: Client) -> None:
    partner = make_world().here.pk
    for kind in ("backlog", "order_restarted", "delivery_failed", "sequence_gap"):
        incidents.open_now(partner, "in", kind, "m-1", "so it is")
    listed = administrator.get(url(Incident, "changelist"), {"is": "open"})
    kinds = [one.kind for one in listed.context["cl"].result_list]
    assert kinds == ["delivery_failed", "backlog", "sequence_gap", "order_restarted"]
    assert ">critical<" in "".join(listed.content.decode().split())


def test_it_names_the_cause_that_the_answer_names(administrator: Client) -> None:
    suspended_world()  # by a 415
    listed = administrator.get(url(Incident, "changelist"), {"is": "open"}).content.decode()
    dashboard = administrator.get(reverse("admin:index")).content.decode()
    cause = dashboard.split('<span class="msh-cause">')[1].split("</span>")[0]
    assert cause in listed
    page = page_of(administrator, Incident.objects.get())
    assert cause in page.partition("Recommended action")[0]
    assert "415 Unsupported Media Type" in listed


def test_several_are_taken_at_once_and_one_by_a_button(keeper: Client) -> None:
    partner = make_world().here.pk
    for kind in ("backlog", "sequence_gap"):
        incidents.open_now(partner, "in", kind, "m-1", "so it is")
    keys = list(Incident.objects.values_list("pk", flat=True))
    data = {"action": "assign_selected", "_selected_action": keys[:1]}
    keeper.post(url(Incident, "changelist"), data)
    assert Incident.objects.get(pk=keys[0]).assigned_to == "kim"

    page = keeper.get(url(Incident, "change", keys[1])).content.decode()
    where = reverse("admin:msh_incident_assign_to_me", args=[keys[1]])
    assert f'<form method="post" action="{where}">' in page
    keeper.post(where)
    taken = Incident.objects.get(pk=keys[1])
    assert taken.assigned_to == "kim"
    assert [note.text for note in taken.notes.all()] == ["For kim"]


def test_who_may_not_assign_is_offered_nothing() -> None:
    incidents.open_now(make_world().here.pk, "in", "backlog", "m-1", "so it is")
    vera = client_of("vera", "view_incident")
    listed = vera.get(url(Incident, "changelist"))
    assert "assign_selected" not in listed.content.decode()


def test_open_incidents_are_found_by_their_index_and_sorted_in_memory(
    administrator: Client,
) -> None:
    """No index for their severity: a partner has at most one open incident of a kind and
    direction, so that few are sorted, however many were resolved."""
    partner, now = make_world().here, timezone.now()
    of_partner = {"partner": partner, "direction": "in", "opened_at": now, "last_at": now}
    Incident.objects.bulk_create(
        Incident(**of_partner, kind="stuck", resolved_at=now) for _ in range(5_000)
    )
    Incident.objects.create(**of_partner, kind="stuck")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE msh_incident")
    listed = administrator.get(url(Incident, "changelist"), {"is": "open"}).context["cl"]
    plan = listed.queryset.explain()
    assert "incident_open_once" in plan
    assert "Seq Scan on msh_incident" not in plan
