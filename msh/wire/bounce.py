"""Delivery reports of mail hosts about our mails (RFC 3464), and automatic replies (RFC 3834)."""

import email
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from itertools import islice
from urllib.parse import unquote

from msh.protocol.errors import Unreadable
from msh.protocol.mail import ABOUT
from msh.protocol.reason import Refusal

from .mime import media_type
from .text import shown

READ_LIMIT = 1024 * 1024
"""Bytes of a report that are read: behind it is our own message, whose head is enough."""
DIAGNOSTIC_LIMIT = 300  # characters
NESTED_LIMIT = 20
"""Parts with parts that are read: each line behind them is compared with the boundary of each."""

ABOUT_LIMIT = 20
"""MessageIds that one report may be about: each is looked for."""

# With bounds: what a stranger writes is to be read once.
_MESSAGE_ID = re.compile(r"<(?:\w{1,50}:)?MessageId\b[^<>]{0,1000}>([^<]{1,1100})<")
_MULTIPART = re.compile(rb"multipart/", re.IGNORECASE)
_STATUS = re.compile(r"([245])\.\d{1,3}\.\d{1,3}")


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """`action` as in RFC 3464 §2.3.3, `status` such as "5.2.2"; both empty where it does not say.
    `about`: what may be the MessageId of ours that it is about, the most likely ones first."""

    action: str
    status: str
    diagnostic: str
    about: tuple[str, ...]

    @property
    def refuses(self) -> bool:
        """The mail will never be taken: the class of its status is 5."""
        return self.action == "failed" and self.status.startswith("5.")

    @property
    def words(self) -> str:
        what = "bounced" if self.action == "failed" else self.action or "reported"
        return f"{what}: {self.status} {self.diagnostic}".strip(" :")


def delivery_report(mail: bytes) -> DeliveryReport | None:
    """Return the delivery report in this mail; None if it is no report. Raises Unreadable for one
    that is nested too deep."""
    if _head_of(mail).get_content_type() != "multipart/report":
        return None
    try:
        message = email.message_from_bytes(_bounded(mail[:READ_LIMIT]))
        parts = list(message.walk())
    except RecursionError:
        raise Unreadable("the mail has too many parts within parts", Refusal.PACKAGE) from None
    of_recipients = [one for one in parts if one["Action"] or one["Status"]]
    if not of_recipients:
        return None
    # Of several recipients one that failed.
    worst = min(of_recipients, key=lambda one: _word(one, "Action") != "failed")
    status = _STATUS.search(str(worst["Status"] or ""))
    diagnostic = str(worst["Diagnostic-Code"] or "").partition(";")
    text = " ".join((diagnostic[2] or diagnostic[0]).split())
    return DeliveryReport(
        _word(worst, "Action"),
        status.group() if status else "",
        shown(text[:DIAGNOSTIC_LIMIT])[1:-1] if text else "",
        tuple(islice(dict.fromkeys(_about(message, parts)), ABOUT_LIMIT)),
    )


def is_automatic(mail: bytes) -> bool:
    """Whether a machine has answered for somebody, and no MSH: such as *out of office*."""
    message = _head_of(mail)
    submitted = str(message["Auto-Submitted"] or "no").partition(";")[0].strip().lower()
    name = media_type(str(message["Content-Type"] or "text/plain")).name
    is_package = name == "multipart/related" or name.endswith(("/xml", "+xml"))
    return submitted != "no" and not is_package


def _head_of(mail: bytes) -> Message:
    return email.message_from_bytes(mail[: 64 * 1024].partition(b"\r\n\r\n")[0])


def _bounded(report: bytes) -> bytes:
    nested = islice(_MULTIPART.finditer(report), NESTED_LIMIT, None)
    deeper = next(nested, None)
    return report if deeper is None else report[: deeper.start()]


def _word(part: Message, name: str) -> str:
    return str(part[name] or "").strip().lower()[:20]


def _about(message: Message, parts: list[Message]) -> Iterator[str]:
    inner = [one for one in parts if one is not message]
    heads = [*inner, *(_head(one) for one in inner)]
    yield from (unquote(str(one[ABOUT]).strip()) for one in heads if one[ABOUT])
    for one in inner:
        content = b"" if one.is_multipart() else one.get_payload(decode=True)
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
        yield from (html.unescape(one.strip()) for one in _MESSAGE_ID.findall(text))
    yield from (_bare(str(one["Message-ID"])) for one in heads if one["Message-ID"])
    yield from map(_bare, str(message["In-Reply-To"] or "").split())
    yield from map(_bare, str(message["References"] or "").split())


def _head(part: Message) -> Message:
    """Return the headers in a part of type text/rfc822-headers."""
    if part.get_content_type() != "text/rfc822-headers":
        return Message()
    content = part.get_payload(decode=True)
    return email.message_from_bytes(content if isinstance(content, bytes) else b"")


def _bare(text: str) -> str:
    return text.strip().removeprefix("<").removesuffix(">")
