"""What people and programs do at the MSHs meanwhile, over HTTP: an operator with a session in the
console, an application with a token, a monitor. Blocking: each call in a thread of its own."""

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

ANSWER_WITHIN = 15.0
"""Seconds; after them nobody was there."""
_FORM_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


@dataclass(frozen=True, slots=True)
class Look:
    """One request and how it went. `status` 0: no answer."""

    what: str
    at: float
    """UTC, seconds."""
    seconds: float
    status: int


@dataclass(slots=True)
class Client:
    """A client of one MSH that keeps its cookies. `looks` are all its requests."""

    port: int
    token: str = ""
    looks: list[Look] = field(default_factory=list)
    _opener: OpenerDirector = field(
        default_factory=lambda: build_opener(HTTPCookieProcessor(CookieJar()))
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, what: str, path: str) -> str:
        """The page; empty where there was no answer, or another than 200."""
        return self._ask(what, Request(self._url(path), headers=self._headers()))

    def post(self, what: str, path: str, body: bytes, content_type: str) -> str:
        headers = self._headers() | {"Content-Type": content_type, "Referer": self._url(path)}
        return self._ask(what, Request(self._url(path), body, headers))

    def log_in(self, user: str, password: str) -> bool:
        found = _FORM_TOKEN.search(self.get("log-in page", "/admin/login/"))
        if found is None:
            return False
        form = {"username": user, "password": password, "csrfmiddlewaretoken": found[1]}
        sent = urlencode(form | {"next": "/admin/"}).encode()
        page = self.post("log-in", "/admin/login/", sent, "application/x-www-form-urlencoded")
        return bool(page) and "csrfmiddlewaretoken" in page and 'name="password"' not in page

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _ask(self, what: str, request: Request) -> str:
        at, began = time.time(), time.monotonic()
        status, page = 0, ""
        try:
            with self._opener.open(request, timeout=ANSWER_WITHIN) as answer:
                status, page = answer.status, answer.read().decode(errors="replace")
        except HTTPError as error:
            status = error.code
            error.close()
        except (OSError, HTTPException):
            pass
        with self._lock:
            self.looks.append(Look(what, at, time.monotonic() - began, status))
        return page


def submissions(tpa_id: str, prefix: str, count: int) -> Iterator[bytes]:
    """Lines of a bulk request: BestEffort messages of one agreement."""
    for number in range(count):
        line = {
            "tpa_id": tpa_id,
            "message_id": f"{prefix}{number}",
            "service_interface": "Purchasing",
            "action": "NewDocument",
            "semantics": "BestEffort",
            "payloads": [{"content": "<Order/>"}],
        }
        yield json.dumps(line).encode() + b"\n"


def submission(tpa_id: str, message_id: str, size: int) -> bytes:
    """A request with one large message."""
    return json.dumps(
        {
            "tpa_id": tpa_id,
            "message_id": message_id,
            "service_interface": "Purchasing",
            "action": "NewDocument",
            "payloads": [{"content": "x" * size, "content_type": "text/plain"}],
        }
    ).encode()
