"""The state of a pair's numbers: the answer that we give to the partner, and the enquiry that we
send."""

from collections.abc import Iterable, Sequence

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.numbers import why_no_numbers
from msh.models import InboundLink, InboundMessage, OutboundLink
from msh.models.inbound import UNACKNOWLEDGED
from msh.protocol import sequence
from msh.protocol.errors import Unreadable
from msh.protocol.link_status import LinkStatus
from msh.store.receiving.pairs import inbound_link
from msh.transport import enquiry
from msh.wire import link_status
from partners.models import Partner
from partners.secrecy import SecretUnreadableError

ASKED_AT_ONCE = 20
"""MessageIds of one enquiry."""
DEADLINE = 10.0
"""Seconds for all questions of one enquiry together: a person waits, in a thread of the web."""


class NoStatus(NotPossible):
    """The partner did not say, and `why`; `silent`: it did not answer at all in time; `status`: of
    its HTTP response, 0 without one. `str()` is a sentence with the cure."""

    def __init__(self, text: str, why: str = "", *, silent: bool = False, status: int = 0) -> None:
        super().__init__(text)
        self.why, self.silent, self.status = why, silent, status


def status_for(partner: Partner, message_ids: Iterable[str]) -> LinkStatus:
    """Return the state of the numbers from this partner. It waits for acceptances in progress: the
    partner takes "not known" as proof that it may give the number to another message (D18).

    Raises a DatabaseError if an acceptance does not end within lock_timeout.
    """
    with transaction.atomic():
        status = _read(partner, _lock(partner), message_ids)
        # A lock is a write, and its COMMIT would wait for a standby that is away.
        transaction.set_rollback(True)
    return status


def _lock(partner: Partner) -> InboundLink:
    """An acceptance holds the link until others see it, also while its COMMIT waits. The first
    one of a pair inserts the link, which is waited for by inserting it as well."""
    links = InboundLink.objects.select_for_update(no_key=True).filter(partner=partner)
    if (link := links.first()) is not None:
        return link
    return links.get(pk=inbound_link(partner.pk))


def _read(partner: Partner, received: InboundLink, message_ids: Iterable[str]) -> LinkStatus:
    sent = OutboundLink.objects.select_related("in_flight").filter(partner=partner).first()
    flying = sent.in_flight if sent else None
    asked = list(dict.fromkeys(message_ids))[:ASKED_AT_ONCE]
    last = received.last_message_id
    known = InboundMessage.objects.filter(link__partner=partner, message_id__in=[*asked, last])
    states = dict(known.order_by("pk").values_list("message_id", "state"))
    return LinkStatus(
        accepted_number=received.last_number,
        accepted_message_id=last,
        next_number=sent.next_number if sent else sequence.FIRST,
        in_flight_number=flying.sequence_number if flying else None,
        in_flight_message_id=flying.message_id if flying else "",
        known={message_id: message_id in states for message_id in asked},
        withheld=tuple(name for name, state in states.items() if state in UNACKNOWLEDGED),
    )


def enquire(partner: Partner, message_ids: Sequence[str] = ()) -> LinkStatus:
    """Ask the partner's MSH, over the network: call it outside of any transaction.

    Raises NoStatus if it does not answer, or is no MSH of this product.
    """
    if why := why_no_numbers(partner):
        raise NoStatus(why)
    starts = range(0, len(message_ids), ASKED_AT_ONCE)
    asked = [message_ids[start : start + ASKED_AT_ONCE] for start in starts]
    answers = _ask(partner, [*asked, ()])  # the last word is the newest
    known = {name: has for answer in answers for name, has in answer.known.items()}
    withheld = tuple(dict.fromkeys(name for answer in answers for name in answer.withheld))
    last = answers[-1]
    return LinkStatus(
        last.accepted_number,
        last.accepted_message_id,
        last.next_number,
        last.in_flight_number,
        last.in_flight_message_id,
        known,
        withheld,
    )


def _ask(partner: Partner, questions: Sequence[Sequence[str]]) -> list[LinkStatus]:
    try:
        urls = [enquiry.link_status_url(partner.destination, ids) for ids in questions]
        answers = enquiry.ask(urls, partner.authorization(), DEADLINE, partner.access())
        return [link_status.read(answer) for answer in answers]
    except (enquiry.EnquiryFailed, Unreadable, SecretUnreadableError) as problem:
        raise NoStatus(
            f"Partner {partner.name} did not report the state of its link: {problem}. Ask its"
            " operator for the last number and MessageId that it accepted, and enter them.",
            str(problem),
            silent=isinstance(problem, enquiry.NoAnswerInTime),
            status=getattr(problem, "status", 0),
        ) from None
