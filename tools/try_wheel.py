"""`make check-dist`: the wheels that `make dist` has built; that of the MSH is installed where
nothing else is.

Every file of the packages is in them; away from the checkout `msh up` starts, pages, style sheet
and commands answer. Prints what is missing, and ends with 1 then.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MSH = ROOT / "var" / "dist-installed" / "bin" / "msh"
TEMPLATES = "templates"
"""In the wheel: msh/templates (tools/packing.py)."""
WHEELS = {
    "msh": ("msh", "partners", TEMPLATES),
    "msh_client": ("msh_client",),
    "msh_spark": ("spark_bridge",),
}
"""What each has of the checkout."""
PAGES = {
    "/health/ready": '"ready": true',
    "/admin/login/": "msh/console.css",  # a template of ours, with the address of a file of ours
    "/static/msh/console.css": "{",
    "/api/schema": "openapi",
}


def main() -> None:
    problems = missing_files()
    with tempfile.TemporaryDirectory() as folder:
        problems += run_one(Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def missing_files() -> list[str]:
    """Of each wheel."""
    listed = subprocess.run(
        ["git", "ls-files", *(name for names in WHEELS.values() for name in names)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    problems = []
    for wheel, folders in WHEELS.items():
        (file,) = (ROOT / "dist").glob(f"{wheel}-*.whl")
        with zipfile.ZipFile(file) as opened:
            packed = {_in_the_checkout(name) for name in opened.namelist()}
        wanted = {
            name
            for name in listed.stdout.split()
            if name.split("/")[0] in folders and not name.endswith("/pyproject.toml")
        }
        problems += [f"not in {file.name}: {name}" for name in sorted(wanted - packed)]
    return problems


def _in_the_checkout(name: str) -> str:
    if name.startswith(f"msh/{TEMPLATES}/"):
        return name.removeprefix("msh/")
    return f"spark_bridge/{name}" if name.startswith("pyspark_ebxml/") else name


def run_one(folder: Path) -> list[str]:
    """What goes wrong with an MSH that is started in this folder."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MSH_", "PYTHON", "DJANGO"))
        and name not in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    up = subprocess.Popen(
        [MSH, "up", "--port", str(port), "--json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if up.stdout is None or not up.stdout.readline():
            return ["msh up ended before it was ready"]
        problems = [problem for page in PAGES.items() if (problem := ask(port, *page))]
        for words in (["links", "--json"], ["check", "--database", "default"], ["showmigrations"]):
            done = subprocess.run(
                [MSH, *words],
                cwd=folder,
                env=environment | {"MSH_DATA": str(folder / "msh-data")},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode or (words[0] == "links" and json.loads(done.stdout) != []):
                problems.append(f"msh {' '.join(words)}: {done.stdout}{done.stderr}")
        return problems
    finally:
        up.send_signal(signal.SIGINT)
        up.wait()


def ask(port: int, path: str, expected: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Accept": "text/html,*/*"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    fine = answer.status == http.HTTPStatus.OK and expected in body
    return "" if fine else f"GET {path}: {answer.status}, {body[:200]!r}"


if __name__ == "__main__":
    main()
