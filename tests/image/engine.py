"""Where the engine keeps what it makes: everything in var/image, nothing of this machine's own."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "var" / "image"
STANDINS = {
    "postgres": "docker.io/library/postgres:17.5-bookworm",
    "valkey": "docker.io/valkey/valkey:8.1.3-bookworm",
    "nginx": "docker.io/library/nginx:1.28.0-bookworm",
}
"""The folder of each in `standins/`, and the image of docker/compose.yml that it stands for."""


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
