"""Files of the corpus as requests: the ways in which its SOURCES.md says they are to be read."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from msh.wire import package_of

_NAMESPACE = "ebxml-msg/schema/msg-header-2_0.xsd"
_SOAPUI = "http://eviware.com/soapui/config"
_CID = re.compile(r'href="cid:([^"]*)"')
_PLACEHOLDER = re.compile(r"\[\[\$\{(\w+)\}\]\]|\$\{([^}]+)\}|\{\{\{?\s*[$]?(\w+)\s*\}?\}\}")
_SECTION = re.compile(r"\{\{[#/^]\w+\}\}")
_THYMELEAF_HREF = re.compile(r'\sth:(xlink:href)="\$\{[^"]*\}"')
_THYMELEAF = re.compile(r'\sth:[\w:-]+="[^"]*"')
_NO_MESSAGE = ("payload", "CPA 2.0", "XML schema", "WSDL", "SOAP request to", "recorded requests")
_COMMENT = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
_VALUES = (
    ("time", "2026-11-22T12:00:00Z"),
    ("signed", "false"),
    ("actor", "urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"),
    ("severity", "Error"),
    ("error_code", "ValueNotRecognized"),
    ("encoding", "8bit"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is handed to the reader, and where it came from."""

    file: str
    content_type: str
    body: bytes
    name: str = ""
    """Which of several in one file."""


def requests(folder: Path, file: str, what: str) -> Iterator[Request]:
    """The requests in one file; none if it holds no message."""
    text = (folder / file).read_bytes()
    if file.endswith("soapui-project.xml"):
        yield from _of_project(file, text.decode())
    elif what.startswith(_NO_MESSAGE):
        return
    elif what.startswith("JSON record"):
        record = json.loads(text)
        yield _packed(file, record["ebXML"], record.get("payload", ""))
    elif what.startswith("MIME frame") and "{{ebxml}}" in text.decode("latin-1"):
        envelope = (folder / file).with_suffix(".ebxml").read_bytes().strip()
        yield _framed(file, text.replace(b"{{ebxml}}", envelope))
    elif what.startswith(("MIME", "HTTP request")) or file.endswith(".http"):
        yield _framed(file, _rendered(text))
    elif what.startswith("mail"):
        content_type, body = package_of(text)
        yield Request(file, content_type, body)
    else:
        yield _packed(file, _rendered(text).decode(), "")


def _rendered(text: bytes) -> bytes:
    """A template with a value for every placeholder."""
    document = text.decode("latin-1")
    if not ("{{" in document or "${" in document):
        return text
    document = _THYMELEAF_HREF.sub(r' \1="cid:rendered"', _SECTION.sub("", document))
    document = _THYMELEAF.sub("", document)
    return _PLACEHOLDER.sub(_value, document).encode("latin-1")


def _value(found: re.Match[str]) -> str:
    name = next(filter(None, found.groups()))
    plain = name.lower().replace("#", "").replace(".", "_")
    for part, value in _VALUES:
        if part in plain:
            return value
    return f"urn:x:{re.sub(r'[^A-Za-z0-9_-]', '-', name)}"


def _framed(file: str, text: bytes) -> Request:
    """A package with the headers of its request or mail before it, or none."""
    start = re.search(rb"(?m)^--[^\r\n]+", text)
    if start is None:
        return Request(file, "multipart/related; boundary=none", text)
    head = re.sub(rb"\r?\n[ \t]+", b" ", text[: start.start()]).decode("latin-1")
    named = re.search(r"(?im)^content-type: *(.+?)\s*$", head)
    boundary = start[0][2:].decode().strip()
    guessed = f'multipart/related; type="text/xml"; boundary="{boundary}"'
    return Request(file, named[1] if named else guessed, text[start.start() :])


def _packed(file: str, envelope: str, payload: str, name: str = "") -> Request:
    """An envelope that stands alone, with a part for each that its Manifest names."""
    document = _COMMENT.sub("", envelope)
    if document.startswith("<?xml version=\\'"):  # the text of a program
        document = document.replace("\\'", "'").replace("\\n", "\n")
    content_ids = dict.fromkeys(_CID.findall(document))
    if not content_ids:
        return Request(file, "text/xml", document.encode(), name)
    parts = ["Content-Type: text/xml\r\n\r\n" + document]
    for content_id in content_ids:
        parts.append(f"Content-ID: <{content_id}>\r\n\r\n{payload}")
        payload = ""
    body = "".join(f"--corpus\r\n{part}\r\n" for part in parts) + "--corpus--\r\n"
    return Request(file, "multipart/related; boundary=corpus", body.encode(), name)


def _of_project(file: str, text: str) -> Iterator[Request]:
    """The ebMS messages of a SoapUI project, by the steps of its test."""
    for step in ElementTree.fromstring(text).iter(f"{{{_SOAPUI}}}testStep"):
        for element in step.iter():
            document = (element.text or "").strip()
            if document[:1] == "<" and _NAMESPACE in document and ":MessageHeader" in document:
                rendered = _rendered(document.encode()).decode()
                yield _packed(file, rendered, "", step.get("name", ""))
