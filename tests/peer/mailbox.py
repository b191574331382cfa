"""A scripted mail host: another implementation of SMTP, the standard library only.

    with Mailbox() as mailbox:
        mailbox.script("RCPT", "450-first line\r\n450 second line")
        ...                                   # have something send to mailbox.port
        mailbox.transactions[0].mail          # what came by DATA, dots taken off

Every verb is answered in the usual way unless a reply is scripted for it; "" hangs up instead, None
says nothing for ever. "." is the reply to the end of a mail, "" the greeting.
"""

import base64
import socketserver
import ssl
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Protocol, Self


class Closeable(Protocol):
    def close(self) -> None: ...


GREETING, END = "", "."
USUAL = {
    GREETING: "220 mailbox",
    "HELO": "250 mailbox",
    "RSET": "250 OK",
    "MAIL": "250 OK",
    "RCPT": "250 OK",
    "DATA": "354 go on",
    END: "250 taken",
    "QUIT": "221 bye",
    "STARTTLS": "220 ready",
    "AUTH": "235 known",
}


@dataclass
class Transaction:
    """One connection: `commands` as they came, `mail` with its dots taken off, `raw` with them."""

    commands: list[str] = field(default_factory=list)
    raw: bytes = b""
    encrypted: bool = False

    @property
    def verbs(self) -> list[str]:
        return [command.split(" ")[0].upper() for command in self.commands]

    @property
    def mail(self) -> bytes:
        lines = self.raw.split(b"\r\n")
        return b"\r\n".join(line.removeprefix(b".") for line in lines)

    def command(self, verb: str) -> str:
        return next(each for each in self.commands if each.upper().startswith(verb))

    def shown(self) -> str:
        """What AUTH PLAIN showed, as user:password."""
        blob = self.command("AUTH PLAIN").split(" ")[2]
        return ":".join(base64.b64decode(blob).decode().split("\0")[1:])


class Mailbox:
    """`tls`: a context to offer STARTTLS with. `auth`: AUTH PLAIN is offered."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, auth: bool = True) -> None:
        self.transactions: list[Transaction] = []
        self.tls = tls
        self.auth = auth
        self.released = threading.Event()
        self._script: defaultdict[str, deque[str | None]] = defaultdict(deque)
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _Conversation(mailbox, self).run()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def script(self, verb: str, *replies: str | None) -> None:
        """Answer the next commands of this verb so, one each; then as usual."""
        self._script[verb].extend(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, verb: str) -> str | None:
        if self._script[verb]:
            return self._script[verb].popleft()
        if verb == "EHLO":
            auth = "250-AUTH PLAIN\r\n" if self.auth else ""
            tls = "250-STARTTLS\r\n" if self.tls else ""
            return f"250-mailbox\r\n{auth}{tls}250 SIZE 1000000"
        return USUAL.get(verb, "500 what?")


class _Conversation:
    def __init__(self, mailbox: Mailbox, connection: socketserver.StreamRequestHandler) -> None:
        self._mailbox = mailbox
        self._connection = connection
        self._reader, self._writer = connection.rfile, connection.wfile
        self._opened: list[Closeable] = []
        self._transaction = Transaction()
        mailbox.transactions.append(self._transaction)

    def run(self) -> None:
        try:
            going_on = self._answer(GREETING)
            while going_on and (line := self._reader.readline()):
                going_on = self._obey(line.decode().rstrip("\r\n"))
        except OSError:
            pass
        finally:
            for opened in self._opened:
                opened.close()

    def _obey(self, command: str) -> bool:
        self._transaction.commands.append(command)
        verb = command.split(" ", maxsplit=1)[0].upper()
        if not self._answer(verb):
            return False
        if verb == "STARTTLS" and self._mailbox.tls is not None:
            self._encrypt(self._mailbox.tls)
        if verb == "DATA" and self._last.startswith("354"):
            return self._take_mail()
        return verb != "QUIT"

    def _take_mail(self) -> bool:
        lines: list[bytes] = []
        while (line := self._reader.readline()) != b".\r\n":
            if not line:
                return False
            lines.append(line)
        self._transaction.raw = b"".join(lines)
        return self._answer(END)

    def _answer(self, verb: str) -> bool:
        reply = self._mailbox.reply(verb)
        if reply is None:
            self._mailbox.released.wait()
        if not reply:
            return False
        self._last = reply
        self._writer.write(f"{reply}\r\n".encode())
        self._writer.flush()
        return True

    def _encrypt(self, tls: ssl.SSLContext) -> None:
        sock = tls.wrap_socket(self._connection.request, server_side=True)
        self._reader, self._writer = sock.makefile("rb"), sock.makefile("wb")
        self._opened = [self._reader, self._writer, sock]
        self._transaction.encrypted = True
