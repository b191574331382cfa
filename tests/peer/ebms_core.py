"""A partner that sends and takes as ebms-core 2.19.3 does, with the standard library only.

Java's HttpClient offers HTTP/2 with every request over plain HTTP (`Upgrade: h2c`). A package goes
in chunks, a piece of it in each; the root's Content-ID, and so `start`, is the MessageId; an
attachment has its file name as raw UTF-8, and no transfer encoding if it is text or XML. A message
to Ping has no SyncReply. A copy of a message whose Acknowledgment still waits is answered with 500.
"""

import email
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

SERVICE = "urn:oasis:names:tc:ebxml-msg:service"
SPACES = {
    "soap": "http://schemas.xmlsoap.org/soap/envelope/",
    "eb": "http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd",
    "ns5": "http://www.w3.org/2000/09/xmldsig#",
    "xlink": "http://www.w3.org/1999/xlink",
}
ACTOR = "urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"
JAVA = (
    "Connection: Upgrade, HTTP2-Settings",
    "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    "Upgrade: h2c",
    "User-Agent: Java-http-client/17.0.15",
)


@dataclass(frozen=True)
class Attachment:
    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True)
class Packed:
    """What a POST carries: pieces are sent as a chunk each, one piece with its length."""

    message_id: str
    content_type: str
    pieces: tuple[bytes, ...]


@dataclass
class Gateway:
    """`msh` is where it sends; it listens at `url` while it is used as a context manager.

    `acknowledges` is whether Acknowledgments leave, or wait until `release` is called.
    """

    msh: str
    cpa_id: str
    party: str
    other: str
    party_type: str = "DUNS"
    acknowledges: bool = True
    taken: dict[str, list[bytes]] = field(default_factory=dict)
    """Payloads of each message that came, by MessageId."""
    acknowledged: list[str] = field(default_factory=list)
    """Of what was sent: MessageIds that an Acknowledgment came for."""
    signals: list[str] = field(default_factory=list)
    """Actions of all signals that came."""
    refused: int = 0
    """Copies that were answered with 500."""
    _queued: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> "Gateway":
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/ebms"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- sending --------------------------------------------------------------------------------
    def message(
        self, attachments: Sequence[Attachment], service: str = "urn:orders", action: str = "New"
    ) -> Packed:
        message_id = f"{uuid.uuid4()}@127.0.0.1"
        references = "".join(
            f'\n            <eb:Reference xlink:href="cid:{number}" xlink:type="simple"/>'
            for number, _ in enumerate(attachments, 1)
        )
        manifest = f'\n        <eb:Manifest eb:version="2.0">{references}\n        </eb:Manifest>'
        asked = (
            f'\n        <eb:AckRequested eb:signed="false" eb:version="2.0" soap:actor="{ACTOR}"'
            ' soap:mustUnderstand="1"/>'
        )
        envelope = self._envelope(
            message_id,
            *(service, action, "", "\n            <eb:DuplicateElimination/>", asked),
            body=manifest if attachments else "",
        )
        if not attachments:
            return Packed(message_id, "text/xml; charset=UTF-8", (envelope,))
        mark = f"-={uuid.uuid4()}=-"
        kind = (
            f'multipart/related; boundary="{mark}"; type="text/xml"; start="<{message_id}>";'
            ' start-info="text/xml"'
        )
        pieces = [
            f"--{mark}\r\n".encode(),
            f"Content-Type: text/xml; charset=UTF-8\r\nContent-ID: <{message_id}>\r\n\r\n".encode(),
            envelope,
        ]
        for number, one in enumerate(attachments, 1):
            pieces += [f"\r\n--{mark}\r\n".encode(), _head(number, one), one.content]
        return Packed(message_id, kind, (*pieces, f"\r\n--{mark}--\r\n".encode()))

    def ping(self) -> Packed:
        message_id = f"{uuid.uuid4()}@127.0.0.1"
        envelope = self._envelope(message_id, SERVICE, "Ping", "", "", "")
        return Packed(message_id, "text/xml; charset=UTF-8", (envelope,))

    def send(self, packed: Packed) -> int:
        """The status. On a connection of its own, as of a client whose last one was closed."""
        return self._post(packed)[0]

    def send_together(self, packed: Sequence[Packed]) -> list[int]:
        """On one connection, as long as the answers leave it open."""
        statuses, kept = [], None
        for one in packed:
            status, kept = self._post(one, kept)
            statuses.append(status)
        if kept is not None:
            kept.close()
        return statuses

    def release(self) -> None:
        """Let the Acknowledgments that wait leave."""
        with self._lock:
            self.acknowledges = True
            queued, self._queued = self._queued, []
        for message_id in queued:
            self._acknowledge(message_id)

    def _post(
        self, packed: Packed, kept: socket.socket | None = None
    ) -> tuple[int, socket.socket | None]:
        address = urlsplit(self.msh)
        where = (str(address.hostname), address.port or 80)
        connection = kept or socket.create_connection(where, timeout=60)
        is_whole = len(packed.pieces) == 1
        size = f"Content-Length: {len(packed.pieces[0])}"
        offer, settings, *rest = JAVA
        lines = (
            *(f"POST {address.path} HTTP/1.1", offer, *([size] if is_whole else [])),
            *(f"Host: {address.netloc}", settings),
            *(() if is_whole else ("Transfer-encoding: chunked",)),
            *(*rest, f"Content-Type: {packed.content_type}", 'SOAPAction: "ebXML"', "", ""),
        )
        connection.sendall("\r\n".join(lines).encode())
        for piece in packed.pieces:
            connection.sendall(piece if is_whole else b"%x\r\n%b\r\n" % (len(piece), piece))
        if not is_whole:
            connection.sendall(b"0\r\n\r\n")
        response = HTTPResponse(connection, method="POST")
        response.begin()
        response.read()
        if response.will_close:
            connection.close()
            return response.status, None
        return response.status, connection

    def _envelope(
        self,
        message_id: str,
        service: str,
        action: str,
        of: str,
        more: str,
        block: str,
        body: str = "",
    ) -> bytes:
        spaces = " ".join(f'xmlns:{name}="{space}"' for name, space in SPACES.items())
        about = (
            f"\n                <eb:RefToMessageId>{escape(of)}</eb:RefToMessageId>" if of else ""
        )
        return f"""<soap:Envelope {spaces}>
    <soap:Header>
        <eb:MessageHeader eb:version="2.0" soap:mustUnderstand="1">
            <eb:From>
                <eb:PartyId eb:type="{self.party_type}">{self.party}</eb:PartyId>
            </eb:From>
            <eb:To>
                <eb:PartyId eb:type="{self.party_type}">{self.other}</eb:PartyId>
            </eb:To>
            <eb:CPAId>{self.cpa_id}</eb:CPAId>
            <eb:ConversationId>{message_id.partition("@")[0]}</eb:ConversationId>
            <eb:Service>{service}</eb:Service>
            <eb:Action>{action}</eb:Action>
            <eb:MessageData>
                <eb:MessageId>{message_id}</eb:MessageId>
                <eb:Timestamp>{_now()}</eb:Timestamp>{about}
            </eb:MessageData>{more}
        </eb:MessageHeader>{block}
    </soap:Header>
    <soap:Body>{body}
    </soap:Body>
</soap:Envelope>
""".encode()

    def _acknowledge(self, of: str) -> None:
        block = f"""
        <eb:Acknowledgment eb:version="2.0" soap:actor="{ACTOR}" soap:mustUnderstand="1">
            <eb:Timestamp>{_now()}</eb:Timestamp>
            <eb:RefToMessageId>{escape(of)}</eb:RefToMessageId>
        </eb:Acknowledgment>"""
        self._signal("Acknowledgment", of, block)

    def _signal(self, action: str, of: str, block: str = "") -> None:
        message_id = f"{uuid.uuid4()}@127.0.0.1"
        envelope = self._envelope(message_id, SERVICE, action, of, "", block)
        self._post(Packed(message_id, "text/xml; charset=UTF-8", (envelope,)))

    # --- taking ---------------------------------------------------------------------------------
    def take(self, content_type: str, body: bytes) -> int:
        """The status for a POST that came."""
        parts = _parts(content_type, body)
        root = ET.fromstring(parts[0])
        message_id = _text(root, "MessageId")
        action = _text(root, "Action")
        if _text(root, "Service") == SERVICE:
            self._take_signal(root, action, message_id)
            return 204
        with self._lock:
            if message_id in self._queued:
                self.refused += 1
                return 500
            self.taken.setdefault(message_id, parts[1:])
            if not self.acknowledges:
                self._queued.append(message_id)
                return 204
        threading.Thread(target=self._acknowledge, args=(message_id,), daemon=True).start()
        return 204

    def _take_signal(self, root: ET.Element, action: str, message_id: str) -> None:
        with self._lock:
            self.signals.append(action)
            if action == "Acknowledgment":
                self.acknowledged.append(_text(root, "RefToMessageId"))
        if action == "Ping":
            arguments = ("Pong", message_id)
            threading.Thread(target=self._signal, args=arguments, daemon=True).start()


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")[:23] + "Z"


def _head(number: int, one: Attachment) -> bytes:
    is_text = one.content_type.startswith("text/") or one.content_type.endswith("xml")
    encoding = "" if is_text else "Content-Transfer-Encoding: binary\r\n"
    return (
        f"Content-Type: {one.content_type}\r\n{encoding}Content-ID: <{number}>\r\n"
        f'Content-Disposition: attachment; filename="{one.name}"\r\n\r\n'
    ).encode()


def _parts(content_type: str, body: bytes) -> list[bytes]:
    """The contents, the envelope first."""
    whole = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    parts = whole.get_payload() if whole.is_multipart() else [whole]
    return [bytes(one.get_payload(decode=True)) for one in parts]  # type: ignore[union-attr]


def _text(root: ET.Element, name: str) -> str:
    found = root.find(f".//eb:{name}", SPACES)
    return (found.text or "") if found is not None else ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway = gateway


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["SOAPAction"] == '"ebXML"'
        status = self.server.gateway.take(self.headers["Content-Type"], body) if is_known else 400
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass
