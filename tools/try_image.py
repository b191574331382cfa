"""The image without an engine: every command that docker/compose.yml names, run from the installed
wheel with production settings, behind nginx with TLS and mutual TLS. Part of `make check-dist`.
"""

import base64
import http.client
import json
import os
import secrets
import shutil
import signal
import smtplib
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from check_docker import BIN, DOCKER, ROOT, require

HOST = "msh.example.com"
METRICS_TOKEN = secrets.token_hex(20)
STARTS_WITHIN = 90.0  # seconds
EMBEDDED = """
import json, pathlib, sys
from msh.standalone.embedded import EmbeddedServers
with EmbeddedServers(pathlib.Path(sys.argv[1])) as servers:
    print(json.dumps(servers.settings), flush=True)
    sys.stdin.read()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        run_processes(Path(name), running)
    print("image: every command runs, behind nginx too")


def run_processes(folder: Path, running: ExitStack) -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    certificate = make_certificate(folder / "tls", HOST)
    client = make_certificate(folder / "client", "acme")
    stranger = make_certificate(folder / "stranger", "acme")
    work = folder / "work"
    work.mkdir()
    environment = production(running.enter_context(embedded(folder / "servers")))

    def command(name: str, **replaced: str) -> list[str]:
        words = [replaced.get(word, word) for word in services[name]["command"]]
        return [str(BIN / words[0]), *words[1:]]

    def run(*words: str) -> None:
        subprocess.run([BIN / words[0], *words[1:]], cwd=work, env=environment, check=True)

    password = {"DJANGO_SUPERUSER_PASSWORD": secrets.token_urlsafe(12)}
    subprocess.run(command("prepare"), cwd=work, env=environment | password, check=True)
    run("msh", "check", "--deploy", "--database", "default", "--fail-level", "WARNING")
    web, tls, plain, mutual, mail = (free_port() for _ in range(5))
    ports = {"8000": str(web), "2525": str(mail), "0.0.0.0": "127.0.0.1"}
    files = {
        "/tls/tls.crt": str(certificate / "tls.crt"),
        "/tls/tls.key": str(certificate / "tls.key"),
    }
    with ExitStack() as processes:
        for name in ("web", "worker", "beat", "smtpd"):
            words = command(name, **ports, **files)
            processes.enter_context(started(name, words, work, environment))
        running.enter_context(nginx(folder, web, tls, plain, mutual))
        wait_until(lambda: '"sweep": "ok"' in ask(tls, "/health/ready")[2], "a worker that sweeps")
        healthcheck(web)
        check_edge(tls, plain)
        check_client_certificates(mutual, client, stranger)
        check_mail(mail)
        check_metrics(web)
    require(not list(work.iterdir()), f"files were written: {list(work.iterdir())}")


def production(servers: dict[str, str]) -> dict[str, str]:
    return servers | {
        "PATH": os.environ["PATH"],
        "MSH_URI": f"https://{HOST}/ebxml/",
        "MSH_TRUSTED_PROXIES": "127.0.0.1",
        "SECRET_KEY": secrets.token_urlsafe(40),
        "MSH_FERNET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "MSH_METRICS_TOKEN": METRICS_TOKEN,
        "MSH_DISK_PATH": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def embedded(folder: Path) -> Iterator[dict[str, str]]:
    folder.mkdir()
    words = [BIN / "python", "-c", EMBEDDED, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env={"PATH": os.environ["PATH"]}, **pipes) as servers:
        assert servers.stdout
        yield json.loads(servers.stdout.readline())
        assert servers.stdin
        servers.stdin.close()


@contextmanager
def started(name: str, words: list[str], cwd: Path, environment: dict[str, str]) -> Iterator[None]:
    """It ends by SIGTERM, as an engine ends it, with status 0."""
    log = cwd.with_name(f"{name}.log")
    with log.open("w") as output:
        process = subprocess.Popen(words, cwd=cwd, env=environment, stdout=output, stderr=output)
    try:
        yield
        require(process.poll() is None, f"{name} has ended:\n{log.read_text()}")
        process.send_signal(signal.SIGTERM)
        ended_well = process.wait(30) == 0
        require(ended_well, f"{name}: {process.returncode} after SIGTERM:\n{log.read_text()}")
    finally:
        process.kill()


@contextmanager
def nginx(folder: Path, web: int, tls: int, plain: int, mutual: int) -> Iterator[None]:
    server = (DOCKER / "nginx.conf.template").read_text()
    for before, after in {
        "${MSH_HOST}": HOST,
        "${MSH_WEB}": f"127.0.0.1:{web}",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
        "/etc/nginx/tls": str(folder / "tls"),
        "resolver ${NGINX_LOCAL_RESOLVERS} valid=5s;": "",
    }.items():
        require(before in server, f"nginx.conf.template has no {before}")
        server = server.replace(before, after)
    server += with_client_certificates(server, tls, mutual, folder / "client" / "tls.crt")
    own = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log error; events {{}}\n"
        f"http {{ access_log off; {own}\n{server} }}\n"
    )
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    require(program is not None, "nginx is missing: apt-get install nginx-light")
    process = subprocess.Popen([str(program), "-c", config, "-p", folder])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


_OF_ANY_CA = "ssl_verify_client   optional_no_ca;"
"""nginx takes one such directive: that of the page replaces it."""


def with_client_certificates(server: str, tls: int, port: int, ca: Path) -> str:
    """The server for TLS once more, on `port`, with what docs/proxies.md says to add."""
    page = (ROOT / "docs" / "proxies.md").read_text().partition("## Client certificates")[2]
    added = page.partition("```nginx\n")[2].partition("```")[0]
    again = server[server.rindex("server {") :].replace(f":{tls} ssl", f":{port} ssl")
    require(_OF_ANY_CA in again, f"nginx.conf.template has no {_OF_ANY_CA}")
    again = again.replace(_OF_ANY_CA, "")
    proxied = again.partition("location / {")[2].partition("}")[0]
    for before, after in {
        "/etc/ssl/partners-ca.pem": str(ca),
        "# as in `location /`": proxied,
    }.items():
        require(before in added, f"docs/proxies.md has no {before}")
        added = added.replace(before, after)
    return again.replace("location / {", f"{added}\n    location / {{")


def healthcheck(web: int) -> None:
    """As the Dockerfile has it."""
    text = (DOCKER / "Dockerfile").read_text()
    words = json.loads(text.partition("HEALTHCHECK")[2].partition("CMD ")[2].partition("\n")[0])
    words = [word.replace("8000", str(web)) for word in words]
    subprocess.run([BIN / words[0], *words[1:]], check=True)
    gone = [word.replace(str(web), "1") for word in words]
    failed = subprocess.run([BIN / gone[0], *gone[1:]], check=False, stderr=subprocess.DEVNULL)
    require(failed.returncode != 0, "the health check passes without a web process")


def check_edge(tls: int, plain: int) -> None:
    status, headers, body = ask(tls, "/admin/login/")
    require(status == 200 and "msh/console.css" in body, f"/admin/login/: {status}")
    require("max-age=" in headers.get("strict-transport-security", ""), "no HSTS")
    require("default-src 'none'" in headers.get("content-security-policy", ""), "no CSP")
    require("Secure" in headers.get("set-cookie", ""), "a cookie that is not Secure")
    require(ask(tls, "/static/msh/console.css")[0] == 200, "no style sheet")
    require(ask(tls, "/metrics")[0] == 404, "/metrics is public")
    require(ask(tls, "/ebxml/", "POST")[0] == 401, "the endpoint does not answer")
    connection = http.client.HTTPConnection("127.0.0.1", plain)
    connection.request("GET", "/admin/", headers={"Host": HOST})
    moved = connection.getresponse().getheader("Location", "")
    require(moved == f"https://{HOST}/admin/", f"http:// leads to {moved!r}")


def check_client_certificates(port: int, client: Path, stranger: Path) -> None:
    require(ask(port, "/health/live")[0] == 200, "browsers need a client certificate")
    require(ask(port, "/ebxml/", "POST")[0] == 403, "a partner needs no client certificate")
    refused = ask(port, "/ebxml/", "POST", stranger)[0]
    require(refused == 400, f"a client certificate of another CA: {refused}")
    known = ask(port, "/ebxml/", "POST", client)[0]
    require(known == 401, f"a client certificate of a partner: {known}")


def check_mail(port: int) -> None:
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.starttls(context=unverified())
        require(client.noop()[0] == 250, "smtpd does not answer after STARTTLS")


def check_metrics(web: int) -> None:
    """Asked for by address, as Prometheus does."""
    connection = http.client.HTTPConnection("127.0.0.1", web)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    page = connection.getresponse().read()
    require(b"msh_database_up 1" in page, f"/metrics: {page[:300]!r}")
    done = subprocess.run(["promtool", "check", "metrics"], input=page, check=False)
    require(done.returncode == 0, "promtool does not accept /metrics")


def ask(
    port: int, path: str, method: str = "GET", client: Path | None = None
) -> tuple[int, dict[str, str], str]:
    """`client`: the folder of a certificate to show."""
    context = unverified()
    if client:
        context.load_cert_chain(client / "tls.crt", client / "tls.key")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    try:
        headers = {"Host": HOST, "Accept": "text/html,*/*"}
        connection.request(method, path, headers=headers, body=b"" if method == "POST" else None)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, answer.read().decode()
    except OSError:
        return 0, {}, ""
    finally:
        connection.close()


def make_certificate(tls: Path, name: str) -> Path:
    tls.mkdir()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", tls / "tls.key", "-out", tls / "tls.crt"),
        ],
        check=True,
        capture_output=True,
    )
    return tls


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while not condition():
        require(time.monotonic() < end, f"there is no {what} after {STARTS_WITHIN:.0f} s")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
