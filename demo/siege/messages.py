"""Messages as the hostile partner writes them: text put together by hand. Standard library only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape

NAMESPACE = "http://www.ebxml.org/namespaces/messageHeader"
BOUNDARY = "hostile-boundary"
CONTENT_TYPE = (
    'multipart/related; type="application/vnd.eb+xml"; version="0.21"; '
    f'boundary="{BOUNDARY}"; start="<header@hostile.example>"'
)


@dataclass(frozen=True, slots=True)
class Account:
    """One of the hostile partner's agreements with an MSH: how it shows itself, who it is."""

    host: str
    port: int
    path: str
    token: str
    sender_uri: str
    receiver_uri: str
    tpa_id: str
    from_party: str
    to_party: str


@dataclass(frozen=True, slots=True)
class Content:
    """What one message of an account holds. `number` None: BestEffort."""

    message_id: str
    number: int | None = None
    extra: str = ""
    """XML that stands in Header."""
    payload: bytes = b"<Order/>"
    content_type: str = "application/xml"


def header_of(account: Account, content: Content) -> bytes:
    """The header document."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    reliable = content.number is not None
    semantics = "OnceAndOnlyOnce" if reliable else "BestEffort"
    number = f"<SequenceNumber>{content.number}</SequenceNumber>" if reliable else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ebXMLHeader xmlns="{NAMESPACE}" Version="0.21" MessageType="Normal">'
        "<Manifest><DocumentReference><DocumentLabel>Order</DocumentLabel>"
        "<DocumentId>cid:payload@hostile.example</DocumentId>"
        '<DocumentDescription xml:lang="en">order</DocumentDescription>'
        "</DocumentReference></Manifest>"
        f"<Header><From><PartyId>{escape(account.from_party)}</PartyId></From>"
        f"<To><PartyId>{escape(account.to_party)}</PartyId></To>"
        f"<TPAInfo><TPAId>{escape(account.tpa_id)}</TPAId>"
        "<ConversationId>hostile</ConversationId>"
        "<ServiceInterface>Purchasing</ServiceInterface><Action>NewDocument</Action></TPAInfo>"
        f"<MessageData><MessageId>{escape(content.message_id)}</MessageId>"
        f"<TimeStamp>{now}</TimeStamp><RefToMessageId></RefToMessageId></MessageData>"
        f"{content.extra}"
        f'<ReliableMessagingInfo DeliverySemantics="{semantics}"></ReliableMessagingInfo></Header>'
        f"<RoutingHeader><SenderURI>{escape(account.sender_uri)}</SenderURI>"
        f"<ReceiverURI>{escape(account.receiver_uri)}</ReceiverURI>"
        f"<ErrorURI>{escape(account.sender_uri)}</ErrorURI>"
        f"<Timestamp>{now}</Timestamp>{number}</RoutingHeader></ebXMLHeader>"
    ).encode()


def body_of(account: Account, content: Content) -> bytes:
    """The body of the POST, of type CONTENT_TYPE."""
    mark = f"--{BOUNDARY}".encode()
    return b"".join(
        [
            mark + b"\r\nContent-ID: <header@hostile.example>\r\n"
            b'Content-Type: application/vnd.eb+xml; version="0.21"; charset="UTF-8"\r\n\r\n',
            header_of(account, content),
            b"\r\n" + mark + b"\r\nContent-ID: <payload@hostile.example>\r\nContent-Type: ",
            content.content_type.encode(),
            b"\r\nContent-Transfer-Encoding: binary\r\n\r\n",
            content.payload,
            b"\r\n" + mark + b"--\r\n",
        ]
    )
