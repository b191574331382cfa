"""Normal, Acknowledgement and Error, each a mail in its own direction, from our client to our
server: sent by the transport, taken by the same flow as a POST (000 §2.5.2)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from msh.flows.operations import change_link
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import Payload
from msh.store.history import Actor
from msh.store.sending.signals import SignalCopy
from msh.transport.job import Job
from msh.transport.smtp import SmtpTransport
from partners.models import Credential, CredentialKind, Partner, digest_of
from partners.models.partner import OutgoingKind
from tests.flows.world import World, make_world


@pytest.fixture
def world(port: int, settings: Any) -> World:
    """Two partners that know each other by mail addresses, and a mail host that is our server."""
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    world = make_world()
    for partner, ours, theirs in ((world.there, "a", "b"), (world.here, "b", "a")):
        partner.our_uri, partner.uri = f"mailto:{ours}@a.example", f"mailto:{theirs}@a.example"
        partner.show(OutgoingKind.BASIC, f"{ours}:secret")
        partner.full_clean()
        partner.save()
        sha256 = digest_of(f"{theirs}:secret")
        Credential.objects.create(partner=partner, kind=CredentialKind.BASIC, sha256=sha256)
    world.agreement.refresh_from_db()
    return world


def mailed(job: Job) -> AttemptResult:
    async def send() -> AttemptResult | None:
        return await SmtpTransport().post(job)

    result = asyncio.run(send())
    assert result is not None
    return result


def mail_all(world: World) -> list[str]:
    """Mail everything that is due until nothing is: what kind each was."""
    kinds = []
    while jobs := world.poll():
        for job in jobs:
            result = mailed(job)
            assert result.outcome is AttemptOutcome.TRANSMITTED, result.detail
            world.end(job, result)
            kinds.append(job.key.kind if isinstance(job.key, SignalCopy) else "Normal")
    return kinds


@pytest.mark.requirement("000-061")
def test_messages_and_acks_cross_by_mail_in_order(world: World) -> None:
    odd = bytes(range(256)) + b"\r\n.\r\n\n.\n\r" + b"x" * 3000
    sent = [world.submit(payload) for payload in ("<one/>", "<two/>")]

    sent.append(submit(world.agreement, "Orders", "New", [Payload(odd, "image/png")]))

    kinds = mail_all(world)

    assert kinds == ["Normal", "Acknowledgement"] * 3
    assert world.received() == [message.message_id for message in sent]
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"acknowledged"}
    (payload,) = InboundMessage.objects.latest("pk").payloads.all()
    assert bytes(payload.content) == odd


@pytest.mark.requirement("000-061")
def test_an_error_crosses_by_mail(world: World) -> None:
    Partner.objects.get(pk=world.here.pk).agreements.all().delete()
    world.submit()

    kinds = mail_all(world)

    assert kinds == ["Normal", "Error"]
    assert world.link.suspended_for == "error_received"


@pytest.mark.requirement("000-002", "000-013", "000-097")
def test_a_mail_that_comes_minutes_late_and_twice_does_no_harm(world: World) -> None:
    world.submit()
    (late,) = world.poll()
    world.end(late, AttemptResult(AttemptOutcome.TRANSMITTED, status=250))
    world.submit()

    for copy in (late, late):
        mailed(copy)
    mail_all(world)
    mailed(replace(late))  # once more, after later messages
    mail_all(world)

    assert len(world.received()) == 2
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"acknowledged"}


@pytest.mark.requirement("000-027", "000-066")
def test_every_copy_is_the_same_package(world: World) -> None:
    world.submit()
    (first,) = world.poll()
    world.end(first, AttemptResult(AttemptOutcome.FAILED, status=450))

    change_link.send_now(world.there, Actor("ann", "the test says so"))

    (second,) = world.poll()

    assert (second.body, second.content_type) == (first.body, first.content_type)
    assert second.body.isascii()
