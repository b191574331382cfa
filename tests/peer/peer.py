"""The peer itself: what the other files do, under one name."""

import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self
from urllib.parse import urljoin

from .answers import Answer, status
from .drafts import Draft, acknowledgement, error
from .reading import Message, NotAMessage
from .recording import Received, Recording
from .sending import Request, Response, exchange
from .serving import Handlers, Server

Chooser = Callable[[Received], Answer]
Replies = Callable[[Received], Iterable[Draft]]


class Peer:
    """A remote MSH under a test's control. Use it as a context manager, or `start` and `stop`.

    `msh` is where it POSTs to, `msh_uri` what it writes as ReceiverURI (default: `msh`).
    `token` is what it shows the MSH, `fields` are defaults of the Drafts it sends, such as
    `tpa_id`. Its own identity is `uri`, by default the address of its server.
    """

    def __init__(
        self,
        msh: str = "",
        *,
        msh_uri: str = "",
        uri: str = "",
        token: str | None = None,
        acknowledges: bool = False,
        tls: ssl.SSLContext | None = None,
        path: str = "/ebxml/",
        **fields: Any,
    ) -> None:
        self.msh = msh
        self.msh_uri = msh_uri or msh
        self.token = token
        self.acknowledges = acknowledges
        self.fields = fields
        self.received = Recording()
        self.replies: Replies | None = None
        self._tls = tls
        self._path = path
        self._given_uri = uri
        self._script: deque[Answer | Chooser] = deque()
        self._always: Answer | Chooser = status(204)
        self._lock = threading.Lock()
        self._server = Server(Handlers(self._choose, self.received.add, self._answered), tls)
        self._replier = ThreadPoolExecutor(8, "peer-replies")

    # --- life -----------------------------------------------------------------------------------
    def start(self) -> Self:
        self._server.listen()
        return self

    def stop(self) -> None:
        self.release()
        self._server.stop_listening()
        self._replier.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *args: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where its server listens."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._server.port}{self._path}"

    @property
    def uri(self) -> str:
        return self._given_uri or self.address

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        return self._server.connections

    # --- answering ------------------------------------------------------------------------------
    def script(self, *answers: Answer | Chooser) -> None:
        """Answer the next requests so, one each; then as always."""
        with self._lock:
            self._script.extend(answers)

    def always(self, answer: Answer | Chooser) -> None:
        """Answer so whatever is not scripted."""
        with self._lock:
            self._always = answer

    def release(self) -> None:
        """End every silence."""
        self._server.release()

    def go_down(self) -> None:
        """Refuse connections."""
        self._server.stop_listening()

    def come_up(self) -> None:
        """Listen again, on the same port."""
        self._server.listen()

    def drop_idle(self) -> None:
        """Close the connections that are kept between two requests."""
        self._server.drop_idle()

    # --- sending --------------------------------------------------------------------------------
    def complete(self, draft: Draft) -> Draft:
        """`draft` with this peer's URIs and fields where it leaves them open."""
        return draft.under(
            {
                "sender_uri": self.uri,
                "receiver_uri": self.msh_uri,
                "error_uri": self.uri,
                **_parties(draft, self.uri, self.msh_uri),
                **self.fields_for(draft),
            }
        )

    def fields_for(self, draft: Draft) -> Mapping[str, Any]:
        """The peer's own fields that this draft takes: of a signal only the TPAId."""
        if draft["message_type"] == "Normal":
            return self.fields
        return {name: self.fields[name] for name in self.fields.keys() & {"tpa_id"}}

    def request(
        self,
        draft: Draft,
        *,
        token: str | None = "",
        path: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Request:
        """The HTTP request for a draft. `token` None: no Authorization; "": the peer's own.

        `path` is relative to the MSH's address. `options` are those of Request.
        """
        whole = self.complete(draft)
        shown = self.token if token == "" else token
        all_headers = {"Content-Type": whole.content_type}
        if shown is not None:
            all_headers["Authorization"] = f"Bearer {shown}"
        all_headers |= headers or {}
        url = urljoin(self.msh, path) if path is not None else self.msh
        return Request(url, headers=all_headers, body=whole.body, **options)

    def send(self, draft: Draft, *, timeout: float = 30.0, **options: Any) -> Response:
        """POST a draft; `options` as of `request`."""
        return self.request(draft, **options).send(timeout)

    def send_at_once(self, drafts: Sequence[Draft], **options: Any) -> list[Response]:
        """POST several drafts at one moment, each over a connection of its own."""
        requests = [self.request(draft, **options) for draft in drafts]
        barrier = threading.Barrier(len(requests))

        def post(request: Request) -> Response:
            barrier.wait(60)
            return request.send()

        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(post, requests))

    def exchange(self, data: bytes, *, ends: bool = False, timeout: float = 30.0) -> bytes:
        """Send raw bytes to the MSH's host and return everything that came back."""
        return exchange(self.msh, data, ends=ends, timeout=timeout)

    def acknowledge(self, received: "Received | Message", **fields: Any) -> Response:
        """Send an Acknowledgement of something received."""
        return self.send(acknowledgement(_message(received), **fields))

    def refuse(
        self, received: "Received | Message", code: str = "TransientError", **fields: Any
    ) -> Response:
        """Send an Error Message for something received."""
        return self.send(error(_message(received), code, **fields))

    # --- what the server asks -------------------------------------------------------------------
    def _choose(self) -> Answer | Chooser:
        with self._lock:
            return self._script.popleft() if self._script else self._always

    def _answered(self, received: Received) -> None:
        self.received.touch()
        if drafts := list(self._replies_to(received)):
            self._replier.submit(self._reply, drafts)

    def _replies_to(self, received: Received) -> Iterable[Draft]:
        if self.replies is not None:
            yield from self.replies(received)
        if self.acknowledges and _is_reliable(received):
            yield acknowledgement(received.message)

    def _reply(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            self.send(draft)


def _message(received: Received | Message) -> Message:
    return received.message if isinstance(received, Received) else received


def _is_reliable(received: Received) -> bool:
    try:
        message = received.message
        return message.message_type == "Normal" and message.semantics == "OnceAndOnlyOnce"
    except NotAMessage:
        return False


def _parties(draft: Draft, uri: str, msh_uri: str) -> Mapping[str, str]:
    """A signal goes from MSH to MSH, so their URIs are its parties."""
    if draft["message_type"] == "Normal":
        return {}
    return {"from_party": uri, "to_party": msh_uri}
