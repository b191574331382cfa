"""Image, compose file, Kubernetes and systemd run the commands that `up` runs, with settings that
exist. `make check-dist` runs them."""

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from msh import stopping
from msh.standalone.running import _children
from msh.web.processes import STOP_SECONDS
from tests.image import engine
from tools.settings_example import TARGET, composed, settings

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PROCESSES = ("web", "worker", "beat", "smtpd")
OWN_OPTIONS = {
    "--host",
    "--port",
    "--fd",
    "--workers",
    "--threads",
    "--cert",
    "--key",
    "--concurrency",
}
"""Addresses, and sizes that an installation chooses."""


def from_up() -> dict[str, list[str]]:
    """Without the interpreter, with the name of the program that the wheel installs."""
    with socket.socket() as web, socket.socket() as mail:
        children = _children(Path("/data"), web, mail)
        return {child.name: _plain(list(child.command)[1:]) for child in children}


def from_compose() -> dict[str, list[str]]:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    return {name: _plain(services[name]["command"]) for name in PROCESSES}


def from_kubernetes() -> dict[str, list[str]]:
    return {
        name: _plain(container["command"]) for name, container in _containers() if name in PROCESSES
    }


def from_systemd() -> dict[str, list[str]]:
    units = {name: (DOCKER / "systemd" / f"msh-{name}.service").read_text() for name in PROCESSES}
    lines = {
        name: re.findall(r"^ExecStart=/opt/msh/bin/(.*)$", unit, re.MULTILINE)
        for name, unit in units.items()
    }
    return {name: _plain(shlex.split(line)) for name, (line,) in lines.items()}


def _containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for _, pod in _pods():
        for container in pod["containers"]:
            yield container["name"], container


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((DOCKER / "kubernetes").glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            if template := manifest.get("spec", {}).get("template"):
                yield template["metadata"]["labels"]["process"], template["spec"]


def _plain(command: list[str]) -> list[str]:
    """Without the choices of an installation; `python -m NAME` and `NAME` are one."""
    words = [word for word in command if word not in ("python", "-m")]
    words = ["msh" if word == "msh.standalone" else word for word in words]
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word not in OWN_OPTIONS:
            kept.append(word)
        skip = word in OWN_OPTIONS and not skip
    return kept


@pytest.mark.parametrize("commands", [from_compose, from_kubernetes, from_systemd])
def test_commands_are_those_of_up(commands: Any) -> None:
    found = commands()
    assert found == {name: from_up()[name] for name in found}
    assert {"web", "worker", "beat"} <= found.keys()


def test_image_starts_the_web_process() -> None:
    (line,) = re.findall(r"^CMD (\[.*\])$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert _plain(yaml.safe_load(line)) == from_up()["web"]


def test_every_container_is_confined() -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    for name in (*PROCESSES, "prepare"):
        assert services[name]["read_only"] is True, name
        assert services[name]["cap_drop"] == ["ALL"], name
    for name, container in _containers():
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] is True, name
        assert confined["allowPrivilegeEscalation"] is False, name
        assert confined["capabilities"] == {"drop": ["ALL"]}, name


def test_no_process_is_the_first_of_its_container() -> None:
    """PID 1 ignores SIGTERM until it has a handler: one that still starts would be killed."""
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    assert [name for name in (*PROCESSES, "prepare") if services[name]["init"] is not True] == []
    pods = dict(_pods())
    assert pods.keys() == {"web", "worker", "beat", "prepare"}
    assert [
        name for name, pod in pods.items() if pod.get("shareProcessNamespace") is not True
    ] == []


def test_each_process_has_more_time_to_end_than_it_takes() -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    given = [services[name]["stop_grace_period"].removesuffix("s") for name in PROCESSES]
    given += [pod["terminationGracePeriodSeconds"] for name, pod in _pods() if name in PROCESSES]
    units = [(DOCKER / "systemd" / f"msh-{name}.service").read_text() for name in PROCESSES]
    given += [re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0] for unit in units]
    assert len(given) == 2 * len(PROCESSES) + 3
    assert min(map(float, given)) >= max(stopping.LIMIT, STOP_SECONDS) + 5


def test_logs_have_a_limit() -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    kept = {name: service.get("logging", {}).get("options") for name, service in services.items()}
    assert {
        name for name, limits in kept.items() if not limits or "max-size" not in limits
    } == set()


def test_images_have_a_version() -> None:
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    images = [service["image"] for service in services.values()]
    images += re.findall(r"^ARG (PYTHON=\S+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    images += [container["image"] for _, container in _containers()]
    assert [image for image in images if not re.search(r"[:=].*\d+\.\d+", image)] == []


def test_every_image_of_others_has_a_stand_in() -> None:
    """`make image-test` builds these under the names that compose.yml uses."""
    named = engine.images()
    assert set(named) - {engine.OURS} == {folder.name for folder in engine.STANDINS.iterdir()}
    services = yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]
    for service in services.values():
        assert any(name.endswith(f"/{service['image']}") for name in named.values())


def test_settings_are_documented() -> None:
    """docs/settings.md lists exactly the settings that there are."""
    source = (ROOT / "msh" / "settings.py").read_text()
    read = set(re.findall(r'\benv\.\w+\(\s*"([A-Z_]+)"', source))
    assert {name for setting in settings() for name in setting.names} == read


def test_example_of_settings_is_up_to_date() -> None:
    """Otherwise: python -m tools.settings_example"""
    assert TARGET.read_text() == composed()


def test_manifests_name_settings_that_exist() -> None:
    known = {name for setting in settings() for name in setting.names} | {
        "DJANGO_SUPERUSER_PASSWORD"
    }
    config = yaml.safe_load((DOCKER / "kubernetes" / "config.yaml").read_text())["data"]
    secret = yaml.safe_load((DOCKER / "kubernetes" / "secret.example.yaml").read_text())[
        "stringData"
    ]
    assert {name for name in config | secret if name not in known} == set()
