"""The elements of header documents as the draft has them, a dot for each level (000 §2.2)."""

_HEADER_AND_ROUTE = """\
.Header
..From
...PartyId
..To
...PartyId
..TPAInfo
...TPAId
...ConversationId
...ServiceInterface
...Action
..MessageData
...MessageId
...TimeStamp
...RefToMessageId
..ReliableMessagingInfo
.RoutingHeader
..SenderURI
..ReceiverURI
..ErrorURI
..Timestamp"""

ACKNOWLEDGEMENT = f"""\
ebXMLHeader
.Manifest
{_HEADER_AND_ROUTE}"""

RELIABLE = f"""\
ebXMLHeader
.Manifest
..DocumentReference
...DocumentLabel
...DocumentId
...DocumentDescription
{_HEADER_AND_ROUTE}
..SequenceNumber"""
