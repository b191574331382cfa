"""Packages as mails: lines of ASCII are sent, any MIME mail is read (RFC 2045, RFC 5322)."""

import binascii
import re
from email.parser import BytesHeaderParser

from msh.protocol.errors import Unreadable
from msh.protocol.reason import Refusal

from . import mime
from .file_name import disposition

HEAD_LIMIT = 64 * 1024
"""Bytes of a mail's own headers."""

_LINE = 57  # bytes that are 76 characters of base64
_FOLD = re.compile(r"\r?\n(?=[ \t])")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


def is_package(content_type: str) -> bool:
    return mime.media_type(content_type).name.startswith("multipart/")


def in_lines(content_type: str, body: bytes) -> bytes:
    """A package that we composed, with its parts in base64: what mail carries unchanged. What is no
    package is in base64 as a whole, and the mail has to say so.

    The same bytes give the same lines, so every copy is the same. Content-Type stays.
    """
    if not is_package(content_type):
        return _in_base64(body)
    boundary = mime.media_type(content_type).parameters["boundary"]
    lines: list[bytes] = []
    for part in mime.parse(content_type, body, alone=frozenset()):
        lines += (
            f"--{boundary}\r\n"
            f"Content-ID: <{part.content_id}>\r\n"
            f"Content-Type: {part.content_type}\r\n"
            f"{_file_name(part)}"
            f"Content-Transfer-Encoding: base64\r\n\r\n".encode("ascii"),
            _in_base64(part.content()),
        )
    return b"".join((*lines, f"--{boundary}--\r\n".encode("ascii")))


def _file_name(part: mime.Part) -> str:
    named = "content-disposition" in part.headers
    return disposition(part.file_name.text, in_lines=True) if named else ""


def package_of(mail: bytes) -> tuple[str, bytes]:
    """Content-Type and body of the package in a mail, as a POST would bring them.

    Raises Unreadable, saying what is missing, for a mail that holds none.
    """
    end = _HEAD_END.search(mail, 0, HEAD_LIMIT)
    if end is None:
        raise Unreadable(
            f"the mail's headers do not end within {HEAD_LIMIT} bytes", Refusal.PACKAGE
        )
    headers = BytesHeaderParser().parsebytes(mail[: end.start()])
    content_type = _FOLD.sub("", str(headers.get("Content-Type", ""))).strip()
    if not content_type:
        raise Unreadable("the mail has no Content-Type: send multipart/related", Refusal.PACKAGE)
    encoding = str(headers.get("Content-Transfer-Encoding", "7bit")).strip()
    whole = {"content-transfer-encoding": encoding}
    try:
        return content_type, mime.Part(whole, mail, end.end(), len(mail)).content()
    except ValueError as error:
        raise Unreadable(f"the mail's body: {error}", Refusal.PACKAGE) from None


def _in_base64(content: bytes) -> bytes:
    view = memoryview(content)
    return b"".join(
        binascii.b2a_base64(view[start : start + _LINE], newline=False) + b"\r\n"
        for start in range(0, len(content), _LINE)
    )
