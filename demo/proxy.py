"""The fault proxy between two MSHs: one process, one clock, a port for each direction.

It imports the standard library and psycopg, and nothing of the product: what it writes down
is evidence against the product.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from typing import Any, Self, TextIO

import psycopg

from .conversation import Conversation, Way
from .faults import Decision, Ending, Fates, Fault
from .http11 import HOST, NotUnderstoodError, Request, Response, close
from .record import Copy, Record
from .rows import InboundRows
from .sighting import ACKNOWLEDGEMENT, NORMAL, UNREADABLE, Sighting
from .speech import Listener, Speech
from .web import HTTP

HOLD_LIMIT = 12.0


@dataclass(slots=True)
class Held:
    """A copy kept back until `later` more messages of its lane have been seen."""

    lane: str
    later: int
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Front:
    """TLS that the proxy ends. In `header` it names the certificate of the client, in requests to
    addresses that begin with `path`; what a client writes there itself is never passed on."""

    tls: ssl.SSLContext
    header: str
    path: str

    def certified(self, request: Request, writer: asyncio.StreamWriter) -> Request:
        kept = [one for one in request.headers if one[0].lower() != self.header.lower()]
        if request.path.startswith(self.path):
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            kept.append((self.header, sha256(shown).hexdigest()))
        return replace(request, headers=tuple(kept))


class Proxy:
    """Listens while used as a context manager; `ports` then names the ports by way."""

    def __init__(
        self,
        ways: list[Way],
        fates: Fates,
        log: TextIO,
        speech: Speech = HTTP,
        front: Front | None = None,
    ) -> None:
        self.ways = ways
        self.front = front
        self.speech = speech
        self.fates = fates
        self.log = log
        self.ports: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self._events = count(1)
        self._ordinals: Counter[tuple[str, str]] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._lookups: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self._held: list[Held] = []
        self._conversations = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        for way in self.ways:
            server = await asyncio.start_server(
                self._acceptor(way), way.host, way.port, ssl=self.front and self.front.tls
            )
            self._servers.append(server)
            self.ports[way.name] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def holding(self) -> int:
        """Copies that are still kept back."""
        return len(self._held)

    @property
    def idle(self) -> bool:
        """Nothing is held or under way, so the log tells of every request so far."""
        return not (self._held or self._conversations)

    @property
    def disturbed(self) -> int:
        return self.faults.total() - self.faults[Fault.PASS]

    def release(self) -> None:
        """Let every copy go that is still kept back."""
        for held in self._held:
            held.released.set()

    def _acceptor(self, way: Way) -> Any:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._start(self._serve(way, reader, writer))

        return accept

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            listener = self.speech.listen(reader, writer)
            broken = (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)
            with suppress(NotUnderstoodError, *broken):
                while await self._converse(way, listener, reader, writer):
                    pass
        finally:
            await close(writer)

    async def _converse(
        self,
        way: Way,
        listener: Listener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Deal with one request; whether the connection is there for another."""
        start = await listener.start()
        if not start:
            return False
        arrived = next(self._events)
        self._conversations += 1
        try:
            request = await listener.request(start)
            if self.front is not None:
                request = self.front.certified(request, writer)
            seen = self.speech.sight(request.body)
            record = Record(arrived, way.name, seen, len(request.body))
            talk = Conversation(self.speech, way, request, reader, writer, record)
            return await self._handle(talk)
        finally:
            self._conversations -= 1

    async def _handle(self, talk: Conversation) -> bool:
        decision = self._decide(talk.record.sighting)
        talk.record.fault = decision.fault
        self._count_later(talk.record.sighting)
        try:
            await self._look_for_row(talk.record, talk.way.rows)
        except psycopg.Error:
            # An Ack whose row cannot be looked for is never passed on unjudged.
            decision = Decision(Fault.UNAVAILABLE)
            talk.record.fault = decision.fault
        self.faults[talk.record.fault] += 1
        self._write(talk.record)
        if decision.fault is Fault.REORDER:
            return await self._reorder(talk, decision)
        if self.speech.stores and await self._taken(talk, decision):
            return True
        keep_open = await self._suffer(talk, decision)
        self._end(talk.record)
        return keep_open

    def _decide(self, seen: Sighting) -> Decision:
        self._ordinals[seen.lane, seen.kind] += 1
        return self.fates.decide(seen.lane, seen.kind, self._ordinals[seen.lane, seen.kind])

    async def _look_for_row(self, record: Record, rows: InboundRows) -> None:
        """At the first sight of an Ack: is what it promises true?"""
        seen = record.sighting
        if seen.kind != ACKNOWLEDGEMENT:
            return
        acknowledged = (record.direction, seen.ref_to_message_id)
        first = acknowledged not in self._lookups
        if first:
            lookup = asyncio.ensure_future(rows.holds(seen.ref_to_message_id))
            self._lookups[acknowledged] = lookup
        try:
            found = await self._lookups[acknowledged]
        except psycopg.Error:
            self._lookups.pop(acknowledged, None)
            raise
        if first:
            record.row_found = found

    async def _suffer(self, talk: Conversation, decision: Decision) -> bool:
        match decision.fault:
            case Fault.DROP_REQUEST:
                return await talk.end(decision.ending)
            case Fault.DROP_RESPONSE:
                await self._pass_on(talk)
                return await talk.end(decision.ending)
            case Fault.DUPLICATE:
                return await self._answer(talk, await self._duplicate(talk, decision))
            case Fault.DELAY:
                await asyncio.sleep(decision.seconds)
            case Fault.UNAVAILABLE:
                return await talk.answer(self.speech.unavailable)
            case Fault.RESET:
                return await talk.end(Ending.RESET)
        return await self._answer(talk, await self._pass_on(talk))

    async def _answer(self, talk: Conversation, response: Response | None) -> bool:
        """As `Conversation.answer`. A signal in the answer leaves the proxy now."""
        for answer, record in talk.signals:
            if answer is response:
                record.copies.append(Copy(next(self._events), answer.status))
                self._end(record)
        return await talk.answer(response)

    async def _duplicate(self, talk: Conversation, decision: Decision) -> Response | None:
        if decision.concurrent:
            answers = await asyncio.gather(self._pass_on(talk), self._pass_on(talk))
            return answers[0]
        answer = await self._pass_on(talk)
        await self._pass_on(talk)
        return answer

    async def _reorder(self, talk: Conversation, decision: Decision) -> bool:
        held = Held(talk.record.sighting.lane, decision.later)
        self._held.append(held)
        self._start(self._pass_on_later(talk, held))
        if decision.withheld:
            return await talk.end(decision.ending)
        return await self._answer(talk, await self._pass_on(talk))

    async def _pass_on_later(self, talk: Conversation, held: Held) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(held.released.wait(), HOLD_LIMIT)
        await self._pass_on(talk)
        self._held.remove(held)
        self._end(talk.record)

    async def _taken(self, talk: Conversation, decision: Decision) -> bool:
        """As a mail host does it: answered at once, then late or lost. False: any other fault."""
        lost = decision.fault is Fault.DROP_REQUEST and decision.withheld
        if not (lost or decision.fault is Fault.DELAY):
            return False
        await talk.answer(self.speech.taken)
        if lost:
            self._end(talk.record)
        else:
            self._start(self._pass_on_after(talk, decision.seconds))
        return True

    async def _pass_on_after(self, talk: Conversation, seconds: float) -> None:
        """Taken, and passed on when the sender may have sent it again already."""
        self._conversations += 1
        try:
            await asyncio.sleep(seconds)
            await self._pass_on(talk)
        finally:
            self._conversations -= 1
            self._end(talk.record)

    def _count_later(self, seen: Sighting) -> None:
        """The first copy of a message is a later message for all that its lane holds back."""
        message = (seen.lane, seen.message_id)  # a router sends it on under the same MessageId
        if seen.kind != NORMAL or message in self._seen:
            return
        self._seen.add(message)
        for held in self._held:
            held.later -= held.lane == seen.lane
            if held.later <= 0:
                held.released.set()

    async def _pass_on(self, talk: Conversation) -> Response | None:
        copy = Copy(at=next(self._events))
        talk.record.copies.append(copy)
        self._write(talk.record)  # first: an Ack that its sender can know of is in the log
        try:
            response = await self.speech.exchange(HOST, talk.way.target_port, talk.request)
        except (OSError, NotUnderstoodError):
            return None
        copy.status = response.status
        try:
            await self._note_signal(talk, response)
        except psycopg.Error:
            return None  # as for a request: an Ack is never passed on unjudged
        return response

    async def _note_signal(self, talk: Conversation, response: Response) -> None:
        """A message that comes in an answer has a line of its own, as if it were a request."""
        seen = self.speech.sight(response.body)
        if seen.kind != UNREADABLE:
            record = Record(next(self._events), talk.way.back, seen, len(response.body))
            await self._look_for_row(record, talk.way.target_rows)
            talk.signals.append((response, record))
            self._write(record)

    def _end(self, record: Record) -> None:
        record.ended = True
        self._write(record)

    def _write(self, record: Record) -> None:
        self.log.write(record.line() + "\n")
        self.log.flush()
