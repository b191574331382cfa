"""The files of docker/ by their checkers. Part of `make check-dist`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
BIN = ROOT / "var" / "dist-installed" / "bin"
TOOLS = Path(sys.executable).parent


def check_files() -> None:
    """Raises CalledProcessError with what the checker printed."""
    manifests = sorted((DOCKER / "kubernetes").glob("*.yaml"))
    resources = [one for one in manifests if one.name != "kustomization.yaml"]
    commands: list[list[str | Path]] = [
        [TOOLS / "hadolint", DOCKER / "Dockerfile"],
        [
            TOOLS / "check-jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            DOCKER / "compose.yml",
        ],
        *([TOOLS / "kubernetes-validate", "--quiet", "--strict", file] for file in resources),
    ]
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    listed = yaml.safe_load((DOCKER / "kubernetes" / "kustomization.yaml").read_text())
    kept = {file.name for file in resources} - {"secret.example.yaml"}
    require(set(listed["resources"]) == kept, f"kustomization.yaml lists {listed['resources']}")
    check_rules()
    if shutil.which("systemd-analyze"):
        check_units()


def check_units() -> None:
    """With paths that exist here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "env").touch()
        for unit in (DOCKER / "systemd").iterdir():
            text = unit.read_text().replace("/opt/msh/bin", str(BIN))
            text = text.replace("/etc/msh/env", str(folder / "env"))
            (folder / unit.name).write_text(text.replace("=msh\n", "=root\n"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *folder.glob("msh*")],
            capture_output=True,
            text=True,
            check=False,
        )
        ours = [line for line in done.stderr.splitlines() if "msh" in line]
        require(not ours, "\n".join(ours))


def check_rules() -> None:
    require(shutil.which("promtool") is not None, "promtool is missing: apt-get install prometheus")
    for words in (
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        done = subprocess.run(
            ["promtool", *words],
            cwd=DOCKER / "monitoring",
            capture_output=True,
            text=True,
            check=False,
        )
        require(done.returncode == 0, done.stdout + done.stderr)


def require(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(what)


if __name__ == "__main__":
    check_files()
