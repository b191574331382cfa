"""The header document as the peer writes it: text put together by hand, so that it can be bent."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .drafts import Draft


class _Omit:
    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = _Omit()
"""Leaves the element or attribute out."""


class Raw(str):
    """Goes into the XML as it is, unescaped."""

    __slots__ = ()


def document(draft: "Draft") -> str:
    """The header document of `draft`, as text."""
    namespace = "" if draft["namespace"] is OMIT else f' xmlns="{draft["namespace"]}"'
    version, kind = _attribute("Version", draft["version"]), draft["message_type"]
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{draft["doctype"]}'
        f"<ebXMLHeader{namespace}{version}{_attribute('MessageType', kind)}>"
        f"{_manifest(draft)}{_header(draft)}{_routing(draft)}{_errors(draft)}{draft['extra']}"
        "</ebXMLHeader>"
    )


def _manifest(draft: "Draft") -> str:
    if draft["manifest"] is not None:
        return "" if draft["manifest"] is OMIT else str(draft["manifest"])
    references = "".join(
        "<DocumentReference>"
        + _element("DocumentLabel", payload.label)
        + _element("DocumentId", f"cid:{draft.content_id(number)}")
        + _element("DocumentDescription", payload.description, ' xml:lang="en"')
        + "</DocumentReference>"
        for number, payload in enumerate(draft["payloads"], 1)
        if payload.listed
    )
    return f"<Manifest>{references}</Manifest>"


def _header(draft: "Draft") -> str:
    tpa_info = "".join(
        _element(name, draft[field])
        for name, field in (
            ("TPAId", "tpa_id"),
            ("ConversationId", "conversation_id"),
            ("ServiceInterface", "service_interface"),
            ("Action", "action"),
        )
    )
    message_data = (
        _element("MessageId", draft["message_id"])
        + _element("TimeStamp", draft["timestamp"])
        + _element("RefToMessageId", draft["ref_to_message_id"])
    )
    return (
        f"<Header>{_party('From', draft['from_party'], draft['from_context'])}"
        f"{_party('To', draft['to_party'], draft['to_context'])}"
        f"<TPAInfo>{tpa_info}</TPAInfo><MessageData>{message_data}</MessageData>"
        f"{draft['header_extra']}{_reliable_messaging_info(draft)}</Header>"
    )


def _party(name: str, party: Any, context: Any) -> str:
    if party is OMIT:
        return ""
    return f"<{name}>{_element('PartyId', party, _attribute('context', context))}</{name}>"


def _reliable_messaging_info(draft: "Draft") -> str:
    attribute = _attribute("DeliverySemantics", draft["semantics"])
    child = _element("DeliverySemantics", draft["semantics_element"])
    return f"<ReliableMessagingInfo{attribute}>{child}</ReliableMessagingInfo>"


def _routing(draft: "Draft") -> str:
    headers: Sequence[Mapping[str, Any]] | None = draft["routing_headers"]
    if headers is None:
        headers = ({},)
    return "".join(_routing_header(draft.but(**header)) for header in headers)


def _routing_header(draft: "Draft") -> str:
    return (
        "<RoutingHeader>"
        + _element("SenderURI", draft["sender_uri"])
        + _element("ReceiverURI", draft["receiver_uri"])
        + _element("ErrorURI", draft["error_uri"])
        + _element("Timestamp", draft["routing_timestamp"])
        + _element("SequenceNumber", draft["sequence_number"])
        + "</RoutingHeader>"
    )


def _errors(draft: "Draft") -> str:
    if draft["code"] is None:
        return ""
    return (
        "<ErrorHeader><Error>"
        + _element("ErrorCode", draft["code"])
        + _element("Severity", draft["severity"])
        + _element("MinRetrySecs", draft["min_retry_secs"])
        + _element("Location", draft["location"])
        + _element("Description", draft["description"], ' xml:lang="en"')
        + "</Error></ErrorHeader>"
    )


def _element(name: str, value: Any, attributes: str = "") -> str:
    return "" if value is OMIT else f"<{name}{attributes}>{_escaped(value)}</{name}>"


def _attribute(name: str, value: Any) -> str:
    return "" if value is OMIT else f' {name}="{_escaped(value)}"'


def _escaped(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    text = str(value).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace(">", "&gt;").replace('"', "&quot;")
