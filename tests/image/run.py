"""docker/compose.yml, in the namespaces that `tests.image` has made: PID 1 of them."""

import http.client
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import yaml

from tests.image.engine import FOLDER, ROOT
from tests.peer import Draft, Payload, normal

HOST = "msh.example.com"
DOCKER = FOLDER / "docker"
COMPOSE = Path(sys.executable).with_name("podman-compose")
OURS = ("web", "worker", "beat", "smtpd")
WITHIN = 120.0  # seconds
TOKENS = {"token_in": secrets.token_hex(16), "token_out": secrets.token_hex(16)}


def main() -> int:
    enter()
    fill_in()
    try:
        start()
        check_containers()
        check_edge()
        exchange()
        stop()
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        for name in ("prepare", *OURS, "proxy"):
            print(f"--- {name}", podman_all("logs", "--tail", "15", container(name))[-3000:])
        return 1
    finally:
        podman_all("rm", "--all", "--force", "--volumes", "--time", "1")
    print("image: built, and docker/compose.yml runs with it")
    return 0


class Failure(Exception):
    """What is not as it should be."""


def enter() -> None:
    """A /run of its own, and no second hierarchy of control groups, which crun refuses."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if Path("/sys/fs/cgroup/unified").is_mount():
        subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=True)
    shutil.rmtree(FOLDER / "run", ignore_errors=True)
    podman_all("rm", "--all", "--force", "--volumes")
    podman_all("volume", "prune", "--force")
    podman_all("network", "prune", "--force")


def fill_in() -> None:
    """As docker/README.md says."""
    shutil.rmtree(DOCKER, ignore_errors=True)
    shutil.copytree(ROOT / "docker", DOCKER)
    values = {
        "SECRET_KEY": secrets.token_urlsafe(40),
        "MSH_FERNET_KEYS": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "POSTGRES_PASSWORD": secrets.token_hex(20),
        "VALKEY_PASSWORD": secrets.token_hex(20),
        "DJANGO_SUPERUSER_PASSWORD": secrets.token_urlsafe(16),
    }
    text = (DOCKER / ".env.example").read_text()
    for name, value in values.items():
        text, count = re.subn(rf"^{name}=$", f"{name}={value}", text, flags=re.MULTILINE)
        require(count == 1, f".env.example has no line {name}=")
    (DOCKER / ".env").write_text(text)
    (DOCKER / "tls").mkdir()
    key, certificate = DOCKER / "tls" / "tls.key", DOCKER / "tls" / "tls.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", f"/CN={HOST}", "-keyout", str(key)]
    subprocess.run([*words, "-out", str(certificate)], check=True, capture_output=True)
    shutil.chown(key, 10001)  # --profile mail


def start() -> None:
    """In the order of `depends_on`: Podman before 4.6 does not know these conditions."""
    compose("up", "--detach", "--no-deps", "db", "valkey")
    for name in ("db", "valkey"):
        wait_until(partial(healthy, name), f"{name} is healthy")
    compose("up", "--detach", "--no-deps", "prepare")
    status = podman("wait", container("prepare")).strip()
    require(status == "0", f"prepare ended with {status}")
    compose("--profile", "mail", "up", "--detach", "--no-deps", *OURS, "proxy")
    wait_until(lambda: '"sweep": "ok"' in ask("GET", "/health/ready")[1], "a worker sweeps")
    print("prepare, web, worker, beat, smtpd, nginx run", flush=True)


def check_containers() -> None:
    require(healthy("web"), "the health check of the image fails")
    for name in OURS:
        state = json.loads(podman("inspect", container(name)))[0]
        require(
            state["RestartCount"] == 0, f"{name} was started {state['RestartCount']} times more"
        )
        said = podman("exec", container(name), "cat", "/proc/1/status", "/proc/mounts")
        require("\nUid:\t10001\t10001" in said, f"{name} does not run as user 10001")
        require(bool(re.search(r"^CapEff:\t0+$", said, re.MULTILINE)), f"{name} has capabilities")
        require("NoNewPrivs:\t1" in said, f"{name} may get privileges")
        require(bool(re.search(r"^\S+ / \S+ ro,", said, re.MULTILINE)), f"{name}: / is writable")
    checked = podman("exec", container("web"), "msh", "check", "--deploy", "--database", "default")
    require("no issues" in checked, f"msh check --deploy: {checked}")
    print("each runs as 10001, without capabilities, on a read-only root", flush=True)


def check_edge() -> None:
    status, page = ask("GET", "/admin/login/")
    require(status == 200 and "msh/console.css" in page, f"/admin/login/: {status}")
    require(ask("GET", "/metrics")[0] == 404, "/metrics is public")


def exchange() -> None:
    """A partner beside the containers sends messages, a large one too, and gets its Acks."""
    gateway = next(iter(networks_of("worker").values()))["Gateway"]
    with Partner() as partner:
        uri = f"http://{gateway}:{partner.port}/ebxml/"
        agreement = {"tpa_id": "tpa-4711", "our_party": "111111111", "their_party": "222222222"}
        document = {"partners": [{"name": "acme", "uri": uri, **TOKENS, "agreements": [agreement]}]}
        words = ("exec", "--interactive", container("web"), "msh", "setup", "/dev/stdin")
        podman(*words, stdin=json.dumps(document))
        ends = {"sender_uri": uri, "receiver_uri": f"https://{HOST}/ebxml/", "error_uri": uri}
        sizes = (100, 8_000_000)  # the second goes through files of nginx and of the web process
        for number, size in enumerate(sizes, 1):
            payload = Payload(secrets.token_bytes(size), transfer_encoding="binary")
            draft = normal(sequence_number=number, payloads=[payload]).under(ends)
            status, said = ask("POST", "/ebxml/", draft)
            require(status == 204, f"a message of {size} bytes: {status} {said}")
            wait_until(partial(partner.got, draft), f"message {number} is acknowledged")
    print("two messages came in by TLS and were acknowledged", flush=True)


def stop() -> None:
    """Each ends by SIGTERM before Compose would kill it, although nobody answers for names: what
    sometimes happens when networks and machines are stopped together happens each time here."""
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    with silent_name_server():
        for name in OURS:
            grace = services[name]["stop_grace_period"].removesuffix("s")
            begun = time.monotonic()
            podman("stop", "--time", grace, container(name))
            took = time.monotonic() - begun
            status = json.loads(podman("inspect", container(name)))[0]["State"]["ExitCode"]
            print(f"{name} ended with {status}, {took:.1f} s after SIGTERM", flush=True)
            require(status == 0, f"{name} ended with {status}; it has {grace} s")


@contextmanager
def silent_name_server() -> Iterator[None]:
    """Podman's, which is in our namespace of processes: no other is to be seen."""
    found = [
        int(program.parent.name)
        for program in Path("/proc").glob("[0-9]*/comm")
        if program.read_text() == "aardvark-dns\n"
    ]
    require(bool(found), "no aardvark-dns runs")
    for process in found:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


class Partner(http.server.ThreadingHTTPServer):
    """Keeps what it gets. It listens where containers reach it; the namespace has no other host."""

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), Handler)
        self.bodies: list[bytes] = []
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def got(self, draft: Draft) -> bool:
        known = draft.message_id.encode()
        return any(b'MessageType="Acknowledgement"' in one and known in one for one in self.bodies)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Partner

    def do_POST(self) -> None:
        shown = self.headers.get("Authorization")
        known = shown == f"Bearer {TOKENS['token_out']}"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if known:
            self.server.bodies.append(body)
        self.send_response(204 if known else 401)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


def ask(method: str, path: str, draft: Draft | None = None) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(DOCKER / "tls" / "tls.crt"))
    context.check_hostname = False  # asked for by address
    connection = http.client.HTTPSConnection("127.0.0.1", 443, timeout=30, context=context)
    headers = {"Host": HOST, "Accept": "text/html,*/*"}
    if draft is not None:
        headers["Authorization"] = f"Bearer {TOKENS['token_in']}"
        headers["Content-Type"] = draft.content_type
    try:
        connection.request(method, path, draft.body if draft else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError as problem:
        return 0, str(problem)
    finally:
        connection.close()


def networks_of(name: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(podman("inspect", container(name)))[0][
        "NetworkSettings"
    ]["Networks"]
    return found


def container(name: str) -> str:
    return f"msh_{name}_1"


def healthy(name: str) -> bool:
    """Asked for here: Podman leaves the interval to systemd."""
    words = ["podman", "healthcheck", "run", container(name)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def compose(*words: str) -> None:
    files = ["--env-file", str(DOCKER / ".env"), "--file", str(DOCKER / "compose.yml")]
    command = [str(COMPOSE), *files, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    require(done.returncode == 0, f"podman-compose {' '.join(words)}:\n{done.stdout}{done.stderr}")


def podman(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["podman", *words], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    require(done.returncode == 0, f"podman {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def podman_all(*words: str) -> str:
    """Whether there is anything of it or not."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        require(time.monotonic() < end, f"not after {WITHIN:.0f} s: {what}")
        time.sleep(0.3)


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Failure(what)


if __name__ == "__main__":
    sys.exit(main())
