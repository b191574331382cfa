"""What helps is the filled button, by the cause; who may not do it learns who may."""

from collections.abc import Iterable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework.runbooks import RUNBOOKS
from msh.models import Incident, OutboundLink
from msh.protocol.attempt import AttemptResult, outcome_of
from msh.protocol.kinds import IncidentKind
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

NAMES = sorted(page.stem for page in RUNBOOKS.glob("*.md"))


def silent_world(status: int, detail: str) -> World:
    """Suspended when all retries were spent; this was the last answer."""
    world = make_world(retries=0)
    world.submit()
    (job,) = world.poll()
    world.end(job, AttemptResult(outcome_of(status), status=status, detail=detail))
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
    assert "Replace our credentials on the partner" in page.content.decode()
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

    assert filled(page) == ["Resolve and resume"]
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


def test_the_incident_says_the_same(operator: Client) -> None:
    world = silent_world(401, "401 Unauthorized")
    incident = Incident.objects.get(partner=world.there)

    page = operator.get(reverse("admin:msh_incident_change", args=[incident.pk]))

    assert "Replace our credentials on the partner" in page.content.decode()
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
