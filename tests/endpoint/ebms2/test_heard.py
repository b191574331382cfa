"""What a silent partner sends us; signals and repetitions as others write them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows.sending.submit import submit
from msh.models import InboundMessage, Incident, OutboundLink, OutboundMessage, Signal
from msh.protocol.message import Payload
from partners.models import Partner
from tests.endpoint.ebms2 import Send
from tests.peer.ebms2 import SYNC_REPLY, Envelope, Outgoing, acknowledgment, message, ping

pytestmark = pytest.mark.django_db(transaction=True)


def suspend(partner: Partner, why: str = "partner_unreachable") -> None:
    since = timezone.now()
    OutboundLink.objects.update_or_create(
        partner=partner,
        defaults={
            "state": "suspended",
            "suspended_for": why,
            "suspended_since": since,
            "probe_due": since + timedelta(hours=1),
        },
    )


@pytest.mark.requirement("EB-091")
@pytest.mark.parametrize(
    "out",
    [
        message(),
        message(extra=SYNC_REPLY),
        acknowledgment("nobody@peer"),
        ping(),
    ],
    ids=["message", "message that is refused", "acknowledgment", "ping"],
)
def test_what_a_silent_partner_sends_makes_a_probe_due(
    send: Send, ebms2: Partner, out: Outgoing
) -> None:
    send(message())  # what the fast path knows of its agreement is remembered
    suspend(ebms2)
    assert send(out).status in (200, 204)
    assert OutboundLink.objects.get(partner=ebms2).probe_due <= timezone.now()  # type: ignore[operator]


@pytest.mark.requirement("EB-091")
def test_what_an_operator_has_suspended_is_not_probed(send: Send, ebms2: Partner) -> None:
    suspend(ebms2, "operator")
    before = OutboundLink.objects.get(partner=ebms2).probe_due
    send(message())
    assert OutboundLink.objects.get(partner=ebms2).probe_due == before


def sent(partner: Partner) -> OutboundMessage:
    agreement = partner.agreements.get()
    return submit(agreement, "urn:orders", "New", [Payload(b"<order/>")])


@pytest.mark.requirement("EB-031", "EB-086")
def test_an_acknowledgment_of_a_template_counts(send: Send, ebms2: Partner) -> None:
    """Roles that the agreement does not have, and another type of the party in its block."""
    ours = sent(ebms2)
    out = acknowledgment(ours.message_id, from_role="Supplier", to_role="Buyer")
    party = '<eb:From><eb:PartyId eb:type="urn:other">somebody</eb:PartyId></eb:From>'
    out = out.but(extra=out.extra.replace("</eb:Acknowledgment>", f"{party}</eb:Acknowledgment>"))

    assert send(out).status == 204

    assert OutboundMessage.objects.get(pk=ours.pk).state == "acknowledged"
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-073", "EB-100", "EB-112")
@pytest.mark.parametrize("sync", [False, True])
def test_the_same_request_twice_at_once_is_one_message(
    send: Send, ebms2: Partner, sync: bool
) -> None:
    """HTTP clients repeat a POST of their own accord."""
    if sync:
        ebms2.agreements.update(sync_reply="mshSignalsOnly")
    for _ in range(5):
        out = message(extra=SYNC_REPLY if sync else "")
        with ThreadPoolExecutor(2) as clients:
            first, second = clients.map(send, (out, out))
        assert first.status == second.status == (200 if sync else 204)
        stored = InboundMessage.objects.get(message_id=out.message_id)
        assert stored.duplicates == 1
        if sync:
            assert first.body == second.body
            assert Envelope(first.body).action == "Acknowledgment"
        signals = Signal.objects.filter(ref_to_message_id=out.message_id)
        assert signals.count() == 1
