"""How many functions and files of ours the four journeys of ARCHITECTURE.md pass through.

    python -m pytest tools/journeys.py -s

Counted while a message runs: functions of `msh` and `partners`, those inside `msh/wire` as one for
each call from outside. Files: those of the functions, and those of the names that they use, such
as statements and values. Each journey is walked once before it is counted, so that nothing that
happens once in a process is counted.
"""

import ast
import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

import msh
from msh import tasks
from msh.endpoint import EndpointApplication
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import OutboundMessage
from partners.models import Agreement, Credential, Partner, digest_of
from tests.admin.conftest import address, suspended_world
from tests.api.application import Application, order
from tests.flows.byhand import run_until_quiet
from tests.flows.world import World
from tests.peer import Draft, Peer, acknowledgement, normal

pytest_plugins = ("tests.api.conftest",)
pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(msh.__file__).parents[1]
PACKAGES = ("msh", "partners")
OPTIMIZED = 1  # a flag that the code of a function has, and that of a class has not


class Walk:
    """The functions of ours that were called."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        file = _file_of(frame.f_code)
        if event != "call" or not file or not frame.f_code.co_flags & OPTIMIZED:
            return
        name = frame.f_code.co_qualname
        if name.endswith(">") or (file.startswith("msh/wire/") and _is_called_by_wire(frame)):
            return
        self.functions.add((file, name))

    def files(self) -> set[str]:
        used = {file for item in self.functions for file in _files_used(*item)}
        return used | {file for file, _ in self.functions}


@cache
def _file_of(code: CodeType) -> str:
    path = Path(code.co_filename)
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return file if file.startswith(tuple(f"{one}/" for one in PACKAGES)) else ""


def _is_called_by_wire(frame: FrameType) -> bool:
    caller = frame.f_back
    while caller is not None and not _file_of(caller.f_code):
        caller = caller.f_back
    return caller is not None and _file_of(caller.f_code).startswith("msh/wire/")


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@cache
def _imports(file: str) -> dict[str, tuple[str, str]]:
    """Name → the module that it is imported from, and its name there."""
    package = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if not file.endswith("__init__.py"):
        package = package.rpartition(".")[0]
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parts, node.module or ""]) if node.level else node.module or ""
            found |= {a.asname or a.name: (base.rstrip("."), a.name) for a in node.names}
    return found


def _home(module: str, name: str) -> str:
    """The file that defines a name, through packages that pass it on; "" if it is not ours."""
    if module.split(".", maxsplit=1)[0] not in PACKAGES:
        return ""
    path = module.replace(".", "/")
    for file in (f"{path}/{name}.py", f"{path}/{name}/__init__.py"):
        if (ROOT / file).exists():
            return file
    for file in (f"{path}.py", f"{path}/__init__.py"):
        if (ROOT / file).exists():
            passed_on = _imports(file).get(name)
            return (passed_on and _home(*passed_on)) or file
    return ""


@cache
def _functions(file: str) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}

    def add(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", "")
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + name] = child
                add(child, f"{prefix}{name}.<locals>.")
            else:
                add(child, f"{prefix}{name}." if isinstance(child, ast.ClassDef) else prefix)

    add(_tree(file), "")
    return found


def _files_used(file: str, function: str) -> Iterator[str]:
    body = getattr(_functions(file).get(function), "body", [])
    if file.startswith("msh/wire/"):
        return
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id in _imports(file):
            home = _home(*_imports(file)[node.id])
            if home and not _is_module(*_imports(file)[node.id]):
                yield home
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = _imports(file).get(node.value.id, ("", ""))
            if _is_module(module, name) and (home := _home(f"{module}.{name}", node.attr)):
                yield home


def _is_module(module: str, name: str) -> bool:
    path = ROOT / module.replace(".", "/") / name
    return bool(module) and (path.with_suffix(".py").exists() or (path / "__init__.py").exists())


@contextmanager
def walked(journey: str) -> Iterator[None]:
    walk = Walk()
    threading.setprofile(walk.note)
    sys.setprofile(walk.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions, files = len(walk.functions), len(walk.files())
    sys.stderr.write(f"\n{journey}: {functions} functions in {files} files")


# --- the journeys ---------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def partner(transactional_db: None) -> Iterator[Partner]:
    """It answers 204 to everything, and never sends an Acknowledgement by itself."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Partner.objects.create(
            name="acme", uri=f"http://127.0.0.1:{server.server_port}/ebxml/"
        )
        Credential.objects.create(partner=made, sha256=digest_of("token"))
        Agreement.objects.create(partner=made, tpa_id="tpa-4711", our_party="1", their_party="2")
        yield made
        server.shutdown()


def receive(partner: Partner, draft: Draft) -> None:
    peer = Peer("http://msh.example/ebxml/", msh_uri=settings.MSH_URI, uri=partner.uri)
    whole = peer.complete(draft)
    answers: list[str] = []
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/ebxml/",
        "SERVER_NAME": "msh.example",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(whole.body),
        "CONTENT_TYPE": whole.content_type,
        "CONTENT_LENGTH": str(len(whole.body)),
        "HTTP_AUTHORIZATION": "Bearer token",
    }
    application = EndpointApplication(lambda _environ, _start: [])
    list(application(environ, lambda status, _: answers.append(status)))  # type: ignore[arg-type]
    assert answers[0].startswith("204"), answers


def send_what_is_due() -> None:
    """As the task `transmit`, which does not end by itself."""
    run_until_quiet(tasks.loop_of(SendingLoop))


def test_a_message_comes_in_and_its_acknowledgement_goes_out(partner: Partner) -> None:
    parties = {"from_party": "2", "to_party": "1"}
    for number in (1, 2):
        receive(partner, normal(message_id=f"m{number}", sequence_number=number, **parties))
    send_what_is_due()
    with walked("received"):
        receive(partner, normal(message_id="m3", sequence_number=3, **parties))
    with walked("acknowledged"):
        send_what_is_due()


def test_a_message_is_submitted_and_sent(partner: Partner) -> None:
    def send() -> None:
        with transaction.atomic():
            msh.send(Agreement.objects.get(), "Orders", "New", [msh.Payload(b"<order/>")])
        send_what_is_due()

    send()
    receive(partner, acknowledgement(OutboundMessage.objects.get().message_id))
    with walked("submitted and sent"):
        send()


def test_an_operator_resumes_a_link(admin_client: Client, transactional_db: None) -> None:
    where = address("resume", suspended_world().link)
    opened = admin_client.get(where)
    hidden = {field.name: field.value() or "" for field in opened.context["form"].hidden_fields()}
    with walked("resumed"):
        answer = admin_client.post(where, {**hidden, "reason": f"mended {timezone.now()}"})
    assert answer.status_code == 302


def test_a_line_of_a_bulk_request(shop: Application, world: World, transactional_db: None) -> None:
    shop.bulk([order(world, "m1")])
    with walked("a line in bulk"):
        answer = shop.bulk([order(world, "m2")])
    assert answer.status == 200
