"""The feed as who reads it from inside of the MSH."""

from django.db.models import QuerySet

from msh.flows.delivery import feed
from msh.models import InboundMessage


def read_page(after: int, limit: int) -> QuerySet[InboundMessage]:
    """At most `limit` messages behind the place `after` (0: from the beginning), in order."""
    feed.list_new(limit)
    return feed.messages(after)[:limit]
