"""What the tests of conversations in order share."""

import re

from django.db.models import Model
from django.test import Client

from msh.admin.framework.pages import Table
from msh.models import OutboundMessage
from tests.admin.conftest import page_of, url
from tests.flows.flying import REFUSED, Sky

STILL, MISSING = "Stopped conversations", "Conversations with a missing message"


def tables_of(client: Client, row: Model) -> dict[str, Table]:
    page = client.get(url(type(row), "change", row.pk))
    return {table.title: table for table in page.context["tables"]}


def stop(sky: Sky, conversation: str, *, behind: int = 0) -> OutboundMessage:
    """Its first message is refused."""
    first, *_ = [sky.submit(conversation_id=conversation) for _ in range(1 + behind)]
    for job in sky.poll():
        sky.end(job, REFUSED)
    return first


def filled(client: Client, row: Model) -> list[str]:
    """The last part of the addresses of the buttons that are filled."""
    pattern = r'href="([^"]*)/"[^>]*class="msh-action msh-action-recommended"'
    return [one.rpartition("/")[2] for one in re.findall(pattern, page_of(client, row))]
