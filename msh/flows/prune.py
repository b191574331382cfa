"""Retention: what may be removed, and when. In small batches that hold no table.

Only what has ended is removed, payloads first. The id of an inbound message outlives every copy
of it that may still come (D39), and the last number and id of a pair are never removed.
"""

from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from msh.flows.advance import removal
from msh.flows.advance.removal import Retention
from msh.models.retention import Removal, kinds
from partners.models import Agreement

BATCH = 1000
HORIZONS = 10
"""Retry horizons of an agreement for which its ids are kept at least (D39)."""


class RetentionTooShort(ValueError):
    """`str()` names the setting, the agreement that needs longer, and how long."""


def retention() -> Retention:
    """The configured times. Raises RetentionTooShort for ids that could come back."""
    keep = timedelta(days=settings.MSH_KEEP_MESSAGES)
    payloads = timedelta(days=settings.MSH_KEEP_PAYLOADS)
    agreements = Agreement.objects.select_related("partner")
    worst = max(agreements, key=floor_of, default=None)
    if worst is not None and keep < floor_of(worst):
        days = -(-floor_of(worst) // timedelta(days=1))
        raise RetentionTooShort(
            f"MSH_KEEP_MESSAGES is {keep.days} days, but a copy under agreement {worst} with"
            f" {worst.partner} may come for longer: set it to {days} or more, or shorten that"
            " agreement's retries."
        )
    return Retention(messages=keep, payloads=min(payloads, keep))


def floor_of(agreement: Agreement) -> timedelta:
    """How long ids of this agreement are kept at least: its waits, those it grants included."""
    terms = agreement.terms()
    return HORIZONS * timedelta(seconds=terms.retry_horizon + terms.transient_time_limit)


def prune_all() -> dict[str, int]:
    """Remove all that may go; how many of each kind went."""
    kept = retention()
    removed: dict[str, int] = {}
    for kind, remove in _kinds().items():
        removed[kind] = 0
        while count := _batch(remove, kept):
            removed[kind] += count
    return removed


def prunable() -> dict[str, int]:
    """How many of each kind would go now."""
    kept = retention()
    return {kind: removal.count(statement, kept) for kind, statement in _kinds().items()}


def _kinds() -> Mapping[str, Removal]:
    return kinds(heard=bool(settings.MSH_FROM_PARTY_HANDLER))


def _batch(statement: Removal, kept: Retention) -> int:
    with transaction.atomic():
        return removal.remove(statement, kept, BATCH)
