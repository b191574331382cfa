"""What the tests of a router between two MSHs share."""

from django.db import transaction

from msh import wire
from msh.models import (
    OutboundMessage,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import QueueError
from msh.protocol.events import AckReceived
from msh.protocol.message import Field
from msh.protocol.received import ReceivedMessage
from msh.protocol.vocabulary import ErrorCode
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from msh.store.receiving.messages import queue_error
from msh.store.sending.links import OutboundLinks
from msh.transport.job import Job
from partners.models import Partner
from tests.flows.chain import Chain

ACK, TRANSIENT = ("Acknowledgement", ""), ("Error", "TransientError")
FAILURE = ("Error", "DeliveryFailure")
OPERATOR = Actor("ann", "the test says so")
REFUSED = AttemptResult(AttemptOutcome.REFUSED, status=413, detail="413 too large")


def read(job: Job) -> ReceivedMessage:
    return wire.parse(job.content_type, job.body)


def to(jobs: list[Job], partner: Partner) -> list[Job]:
    return [job for job in jobs if job.partner_id == partner.pk]


def one(jobs: list[Job]) -> Job:
    (job,) = jobs
    return job


def sent_to_router(chain: Chain) -> Job:
    """A submits a message, and it comes to R."""
    chain.submit()
    job = one(chain.poll())
    chain.transmit(job)
    return job


def link_of(partner: Partner) -> int:
    open_links(partner)
    return partner.outbound_link.pk


def ask_to_wait(chain: Chain, message: ReceivedMessage, seconds: int) -> None:
    """B answers R with a TransientError."""

    error = QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, "not now", seconds)
    queue_error(chain.from_r.pk, error, message.header, message.header.route.sequence_number)


def chain_ack(chain: Chain) -> None:
    """A's first message is acknowledged, so that its lane is free."""

    message = OutboundMessage.objects.get(link__partner=chain.at_a, state="in_flight")
    with transaction.atomic():
        lanes = OutboundLinks.lock([chain.at_a.pk])
        lanes.step(chain.at_a.pk, AckReceived(message.message_id))
        lanes.write()
