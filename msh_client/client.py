"""What applications do with an MSH: submit messages, take them, read the feeds."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from msh_client.connection import Connection

JSON = {"Content-Type": "application/json"}
LINES = 1_000  # of a bulk request; the MSH takes 5,000
BYTES = 8 * 1024 * 1024  # of a bulk request; the MSH takes 32 MiB
Document = Mapping[str, Any]
Outcome = Literal["completed", "rejected", "failed"]


@dataclass(frozen=True, slots=True)
class Submitted:
    """`is_new`: it was not submitted before."""

    document: Document
    is_new: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a list or feed. `next` is the position to go on from, to be kept with what was made
    of the rows; `more`: there are more already."""

    rows: Sequence[Document]
    next: int
    more: bool


class Client(Connection):
    """One method for each thing that an application does. A request without an answer is sent
    again: the MSH knows messages by their MessageId, and attempts by their number.

    All methods raise ApiRefused, whose `code` says why (/api/problems of the MSH), and
    ApiUnavailable.
    """

    def token(self) -> Document:
        """What the token may do, until when and how much. Ask it first."""
        return self._document("token")

    # --- messages to partners -----------------------------------------------------------------
    def submit(self, message: Document) -> Submitted:
        """Submit one message: a mapping of `tpa_id`, `service_interface`, `action`, `message_id`
        and so on; content of payloads may be bytes. Raises ValueError without a MessageId: sent
        again, it would be another message."""
        body = json.dumps(_with_text(message)).encode()
        answer = self.ask("POST", "messages", body, JSON)
        return Submitted(json.loads(answer.body), is_new=answer.status == HTTPStatus.CREATED)

    def submit_many(
        self, messages: Iterable[Document], *, stop: bool = False
    ) -> Iterator[tuple[Document, Document]]:
        """Submit any number of messages, in requests of 1,000; yield each with its answer, in
        their order. A `result` is "accepted", "known" (it was submitted before) or "refused";
        with `stop` what comes behind a refused message of its partner is "not_sent".

        While an operator has closed a partner, its messages wait for `retry_timeout`. Raises
        ValueError at a message without a MessageId.
        """
        query = {"on_refusal": "stop"} if stop else {}
        for block, lines in _blocks(messages):
            answers = self.bulk_until_open(lines, compress=True, **query)
            yield from zip(block, answers, strict=True)

    def message(self, message_id: str, *, partner: str = "") -> Document:
        """The state of a message that was submitted. `partner`: where several have this id."""
        return self._document(f"messages/{_quoted(message_id)}", partner=partner)

    def messages(self, **filters: object) -> Iterator[Document]:
        """All that were submitted and match, by their numbers: `state="failed"`, `partner="acme"`,
        `ended_since=…`."""
        return self._rows("messages", filters)

    # --- messages from partners ---------------------------------------------------------------
    def take(self, consumer: str, limit: int = 10) -> Sequence[Document]:
        """Lease the next message of each pair, with its payloads, as the pull consumer of this
        name. Settle each within `lease_seconds`."""
        body = json.dumps({"consumer": consumer, "limit": limit}).encode()
        answer = self.ask("POST", "deliveries/take", body, JSON)
        taken: Sequence[Document] = json.loads(answer.body)["results"]
        return taken

    def settle(
        self, taken: Document, outcome: Outcome, *, reason: str = "", external_id: str = ""
    ) -> str:
        """Say how the attempt ended; "failed" is delivered again, "rejected" is not. Return the
        state of the delivery: another one if this attempt is not the latest any more."""
        said = {"attempt": taken["attempt"], "outcome": outcome}
        said |= {"reason": reason, "external_id": external_id}
        path = f"deliveries/{taken['delivery']}/settle"
        answer = self.ask("POST", path, json.dumps(said).encode(), JSON)
        return str(json.loads(answer.body)["state"])

    # --- feeds --------------------------------------------------------------------------------
    def inbound(self, after: int | None = None, **parameters: object) -> Iterator[Page]:
        """Accepted messages behind a position, page by page, until there are no more now; without
        one, from the first that is left. Keep `next` of each page with what you made of it, and
        begin there the next time. `payloads=True`: with their content.

        Raises ApiRefused also with the code "removed" (retention has removed what comes next) and
        "feed_restored" (the database was restored).
        """
        return self._feed("inbound", after, parameters)

    def events(self, after: int | None = None, **parameters: object) -> Iterator[Page]:
        """What became of messages that were submitted, as `inbound`: `kind` is "acknowledged",
        "failed", "suspended" and so on."""
        return self._feed("events", after, parameters)

    # --- what these have in common --------------------------------------------------------------
    def _document(self, path: str, **query: object) -> Document:
        document: Document = self.get(path, **query)
        return document

    def _rows(self, path: str, query: Mapping[str, object]) -> Iterator[Document]:
        after = None
        while True:
            page = self.get(path, **{"limit": 1000, **query, "after": after})
            yield from page["results"]
            if (after := page["next"]) is None:
                return

    def _feed(self, path: str, after: int | None, query: Mapping[str, object]) -> Iterator[Page]:
        more = True
        while more:
            found = self.get(path, **{"limit": 500, **_as_text(query), "after": after})
            page = Page(found["results"], found["next"], found["more"])
            yield page
            after, more = page.next, page.more


def content_of(payload: Document) -> bytes:
    """The bytes of a payload. Raises ValueError if they were not requested or are removed."""
    if payload.get("content_base64") is None:
        why = "was removed by retention" if payload.get("removed") else "was not requested"
        raise ValueError(f"The content of payload {payload.get('number')} {why}.")
    return b64decode(payload["content_base64"], validate=True)


def _quoted(message_id: str) -> str:
    return quote(message_id, safe="")


def _as_text(query: Mapping[str, object]) -> dict[str, object]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }


def _with_text(message: Document) -> Document:
    """The message with its bytes as base64. Raises ValueError."""
    if not message.get("message_id"):
        raise ValueError("message_id is required: without it a retry would be another message")
    if "payloads" not in message:
        return message
    return {**message, "payloads": [_payload(one) for one in message["payloads"]]}


def _payload(payload: Document) -> Document:
    content = payload.get("content")
    if not isinstance(content, bytes):
        return payload
    rest = {name: value for name, value in payload.items() if name != "content"}
    return {**rest, "content_base64": b64encode(content).decode()}


def _blocks(messages: Iterable[Document]) -> Iterator[tuple[list[Document], list[bytes]]]:
    block: list[Document] = []
    lines: list[bytes] = []
    size = 0
    for message in messages:
        line = json.dumps(_with_text(message)).encode()
        if lines and (len(lines) == LINES or size + len(line) > BYTES):
            yield block, lines
            block, lines, size = [], [], 0
        block.append(message)
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield block, lines
