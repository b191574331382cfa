"""The feed of accepted messages: pages that never skip a message which commits later.

Ids are given before a commit, so a page of ids could. Places are given to what is committed, one
process at a time; of one pair they are in the order of acceptance.
"""

from django.db import transaction
from django.db.models import QuerySet

from msh.flows.errors import NotPossible
from msh.models import InboundMessage
from msh.store.delivery.feed import last_possible, list_in_feed


def page(after: int, limit: int) -> QuerySet[InboundMessage]:
    """At most `limit` messages behind the place `after` (0: from the beginning), in order."""
    with transaction.atomic():
        list_in_feed(limit)
    return InboundMessage.objects.filter(feed_position__gt=after).order_by("feed_position")[:limit]


def require_possible(after: int) -> None:
    """Raises NotPossible for a position that no message of this database has had: who waits behind
    it would miss what comes, whose positions are lower."""
    if after > last_possible():
        raise NotPossible(
            f"The feed is behind position {after}: since it was read, the database was restored, or"
            " its clock was set back. Compare what you have with the feed from an earlier position,"
            " and go on from the last one that both have."
        )
