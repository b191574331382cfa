"""The feed of accepted messages: pages that never skip a message which commits later.

Ids are given before a commit, so a page of ids could. Places are given to what is committed, one
process at a time; of one pair they are in the order of acceptance.
"""

from django.db import transaction
from django.db.models import QuerySet

from msh.models import InboundMessage
from msh.store.delivery.feed import list_in_feed


def page(after: int, limit: int) -> QuerySet[InboundMessage]:
    """At most `limit` messages behind the place `after` (0: from the beginning), in order."""
    with transaction.atomic():
        list_in_feed(limit)
    return InboundMessage.objects.filter(feed_position__gt=after).order_by("feed_position")[:limit]
