"""Links and deliveries on which nothing has moved for long."""

from datetime import timedelta

from django.utils import timezone

from msh.models import (
    Incident,
    OutboundLink,
    OutboundMessage,
)
from msh.store.history import Actor
from msh.transport.job import Job
from tests.flows.world import World, make_world
from tests.sql import execute, without_triggers

LONG_AGO = timedelta(days=2)
ANN = Actor("ann", "because")


def silent(**of_partner: object) -> tuple[World, OutboundMessage, Job]:
    """Its only copy was transmitted and never acknowledged: suspended."""
    world = make_world(retries=0)
    for name, value in of_partner.items():
        setattr(world.there, name, value)
    world.there.save(update_fields=list(of_partner))
    message = world.submit()
    (job,) = world.poll()
    world.end(job)
    let_pass(world)
    assert world.link.state == "suspended"
    return world, message, job


def let_pass(world: World) -> None:
    """The deadline of the message in flight is over."""
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - LONG_AGO)
    world.poll()


def let_age(world: World) -> None:
    """It was suspended long ago."""
    OutboundLink.objects.filter(pk=world.link.pk, state="suspended").update(
        suspended_since=timezone.now() - LONG_AGO
    )


def age_history(world: World) -> None:
    """What happened to its links, happened long ago. The history itself refuses to be changed."""
    with without_triggers("msh_history"):
        execute("UPDATE msh_history SET at = %s", timezone.now() - LONG_AGO)


def stuck_detail(world: World) -> str:
    incident = Incident.objects.get(kind="stuck", resolved_at=None)
    assert (incident.partner, incident.direction) == (world.here, "in")
    return incident.detail
