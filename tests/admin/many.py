"""Many suspended partners at once, and deliveries that stand still, as rows: to send and refuse
hundreds of messages would take minutes."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.db import transaction
from django.utils import timezone

from msh.models import (
    Attempt,
    Consumer,
    Delivery,
    Direction,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.attempt import (
    AttemptOutcome,
    AttemptResult,
    outcome_of,
    unacknowledged_after,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement, Partner

REFUSED_CONNECTION = AttemptResult(
    AttemptOutcome.FAILED,
    detail="Cannot connect to 127.0.0.1:8199: Connection refused",
    reason=Reason.CONNECTION,
)


def answered(status: int, detail: str, reason: Reason = Reason.NONE) -> AttemptResult:
    return AttemptResult(outcome_of(status), status, detail, reason=reason)


UNAUTHORIZED = answered(401, "401 Unauthorized")
COPIES = 3
_names = count(1)
_BUSINESS: dict[str, Any] = {
    "semantics": DeliverySemantics.ONCE_AND_ONLY_ONCE,
    "conversation_id": "talk",
    "service_interface": "Orders",
    "action": "New",
    "content_digest": b"0" * 32,
}
"""Of messages in both directions."""


def suspended_partners(
    number: int,
    answer: AttemptResult = REFUSED_CONNECTION,
    *,
    since: datetime | None = None,
    queued: int = 2,
    last_ack: bool = True,
) -> list[OutboundLink]:
    """Each with one message acknowledged, one in flight whose copies were answered like that, and
    `queued` behind it."""
    since = since or timezone.now() - timedelta(minutes=5)
    with transaction.atomic():
        partners = _partners(number)
        agreements = _agreements(partners)
        links = OutboundLink.objects.bulk_create(OutboundLink(partner=one) for one in partners)
        pairs = list(zip(links, agreements, strict=True))
        if last_ack:
            before = since - timedelta(hours=1)
            _sent(pairs, 1, "acknowledged", before)
        flying = _sent(pairs, 2, "in_flight", since - timedelta(minutes=3))
        for _ in range(queued):
            OutboundMessage.objects.bulk_create(_message(*pair, "queued", since) for pair in pairs)
        _attempts(flying, answer, since)
        _suspend(links, flying, since)
    return links


def _partners(number: int) -> list[Partner]:
    names = [f"many-{next(_names):04}" for _ in range(number)]
    return Partner.objects.bulk_create(
        Partner(name=name, uri=uri, uri_normalised=uri, our_uri_normalised="http://we.example/")
        for name in names
        for uri in [f"http://{name}.example/ebxml/"]
    )


def _agreements(partners: Iterable[Partner]) -> list[Agreement]:
    return Agreement.objects.bulk_create(
        Agreement(partner=one, tpa_id=f"tpa-{one.name}", our_party="1", their_party="2")
        for one in partners
    )


def _message(
    link: OutboundLink, agreement: Agreement, state: str, at: datetime, **values: object
) -> OutboundMessage:
    return OutboundMessage(
        link=link,
        agreement=agreement,
        state=state,
        message_id=f"many-{next(_names)}@example",
        submitted_at=at,
        size=100,
        boundary="b",
        **_BUSINESS,
        **values,
    )


def _sent(
    pairs: Iterable[tuple[OutboundLink, Agreement]], number: int, state: str, at: datetime
) -> list[OutboundMessage]:
    ended = at if state == "acknowledged" else None
    return OutboundMessage.objects.bulk_create(
        _message(
            link,
            agreement,
            state,
            at,
            epoch=1,
            sequence_number=number,
            terms=asdict(agreement.terms()),
            completed_at=ended,
            first_sent_at=at,
        )
        for link, agreement in pairs
    )


def _attempts(messages: Iterable[OutboundMessage], answer: AttemptResult, at: datetime) -> None:
    Attempt.objects.bulk_create(
        Attempt(
            message=message,
            number=number,
            claimed_at=at,
            ended_at=at,
            outcome=answer.outcome,
            status=answer.status,
            detail=answer.detail,
            reason=answer.reason,
        )
        for message in messages
        for number in range(1, COPIES + 1)
    )


def _suspend(
    links: Iterable[OutboundLink], flying: Iterable[OutboundMessage], since: datetime
) -> None:
    why = unacknowledged_after(COPIES)
    for link, message in zip(links, flying, strict=True):
        link.state, link.in_flight, link.next_number = "suspended", message, 3
        link.attempt, link.retries_spent = COPIES, COPIES - 1
        link.suspended_since, link.suspended_detail = since, why
        link.suspended_for = IncidentKind.RETRIES_SPENT
    OutboundLink.objects.bulk_update(
        links,
        ["state", "in_flight", "next_number", "attempt", "retries_spent", "suspended_since",
         "suspended_detail", "suspended_for"],
    )  # fmt: skip
    Incident.objects.bulk_create(
        Incident(
            partner=link.partner,
            direction=Direction.OUT,
            kind=IncidentKind.RETRIES_SPENT,
            detail=why,
            opened_at=since,
            last_at=since,
            announced=True,
        )
        for link in links
    )


def standing_deliveries(
    state: str, behind: int, detail: str = "", *, since: datetime | None = None
) -> Delivery:
    """The first message from a partner of its own has a delivery in this state, and `behind` more
    wait for it."""
    since = since or timezone.now() - timedelta(minutes=8)
    (partner,) = _partners(1)
    (agreement,) = _agreements([partner])
    link = InboundLink.objects.create(partner=partner, last_number=behind + 1)
    OutboundLink.objects.create(partner=partner)
    consumer = Consumer.objects.create(name=f"orders-{partner.name}", kind="pull", partner=partner)
    first, *_ = InboundMessage.objects.bulk_create(
        InboundMessage(
            link=link,
            agreement=agreement,
            message_id=f"many-{next(_names)}@example",
            epoch=1,
            sequence_number=number,
            sent_at=since,
            received_at=since,
            header=b"<x/>",
            **_BUSINESS,
        )
        for number in range(1, behind + 2)
    )
    return Delivery.objects.create(
        consumer=consumer, message=first, state=state, attempt=3, failures=3,
        started_at=since, ended_at=since, detail=detail,
        due=timezone.now() + timedelta(hours=1) if state in ("processing", "failed") else None,
    )  # fmt: skip
