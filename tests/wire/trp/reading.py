"""Header documents bent for these tests, and what reading them gives."""

import pytest

from msh.protocol.errors import Refused, Unreadable
from msh.protocol.message import Field, Header
from msh.wire.trp.reader import read
from tests.wire.samples import EXAMPLE, changed


def header(document: str) -> Header:
    return read(document.encode()).header


def refused(document: str) -> Refused:
    with pytest.raises(Refused) as caught:
        read(document.encode())
    description = caught.value.description
    assert description.isascii()
    assert description.isprintable()
    return caught.value


def unreadable(document: str) -> str:
    with pytest.raises(Unreadable) as caught:
        read(document.encode())
    assert caught.value.status == 400
    return str(caught.value)


def of_type(message_type: str, document: str = EXAMPLE) -> str:
    return changed('MessageType="Normal"', f'MessageType="{message_type}"', document)


def without(line: str, document: str = EXAMPLE) -> str:
    """The document without the line that holds this."""
    lines = document.splitlines(keepends=True)
    kept = [each for each in lines if line not in each]
    assert len(kept) == len(lines) - 1, line
    return "".join(kept)


RELIABLE = '    <ReliableMessagingInfo DeliverySemantics="OnceAndOnlyOnce"/>\n'
FRAGMENT = """
<ReliableMessagingInfo>


<DeliverySemantics>OnceAndOnlyOnce</DeliverySemantics>

</ReliableMessagingInfo>
"""

NEEDED = {
    "From": Field.FROM,
    "To": Field.TO,
    "TPAId": Field.TPA_ID,
    "ConversationId": Field.CONVERSATION_ID,
    "ServiceInterface": Field.SERVICE_INTERFACE,
    "Action": Field.ACTION,
    "MessageId": Field.MESSAGE_ID,
    "TimeStamp": Field.TIMESTAMP,
    "ErrorURI": Field.ERROR_URI,
    "Timestamp": Field.ROUTING_TIMESTAMP,
}


def emptied(tag: str, document: str = EXAMPLE) -> str:
    start = document.index(f"<{tag}>") + len(tag) + 2
    return document[:start] + document[document.index(f"</{tag}>") :]
