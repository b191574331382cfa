"""Where the engine keeps what it makes: everything in var/image, nothing of this machine's own."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "var" / "image"
STANDINS = Path(__file__).parent / "standins"
OURS = "msh"


def images() -> Mapping[str, str]:
    """Of docker/compose.yml: `msh`, `postgres`, ... and the names under which Podman keeps them."""
    services = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())["services"]
    named = {service["image"] for service in services.values()}
    return {name.rpartition("/")[2].partition(":")[0]: built_here(name) for name in sorted(named)}


def built_here(name: str) -> str:
    """Podman and Buildah find it by `name` alone, before any registry."""
    return f"localhost/{name}"


def write_settings() -> None:
    """Limits no higher than ours: a root that may not raise them cannot start a container else."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    (FOLDER / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{FOLDER}/run"\ngraphroot = "{FOLDER}/storage"\n'
    )
    (FOLDER / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", '
        f'"nproc={processes}:{processes}"]\n'
        f'[network]\nnetwork_config_dir = "{FOLDER}/networks"\n'
        f'[engine]\nruntime = "crun"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )


def environment() -> Mapping[str, str]:
    return os.environ | {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "CONTAINERS_STORAGE_CONF": str(FOLDER / "storage.conf"),
        "CONTAINERS_CONF": str(FOLDER / "containers.conf"),
    }
