"""Several MSHs, each with its own database, that partners see as one: a load balancer (HAProxy) has
a table of who is served where, as docs/scale.md says."""

import asyncio
import base64
import secrets
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from demo.machines import ROOT, DemoFailed, Machine
from demo.stage import free_port
from msh import processes

NAMES = ("north", "south")
BALANCER = """
defaults
    mode http
    timeout connect 1s
    timeout client 70s
    timeout server 10s
    option httpchk GET /health/ready
frontend partners
    bind 127.0.0.1:{port}
    use_backend %[path,map_beg({table},{default})]
{backends}
"""


def haproxy() -> str:
    """Raises DemoFailed where there is none."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if not program:
        raise DemoFailed("HAProxy is missing: apt-get install haproxy")
    return program


class Table:
    """Which cluster serves a partner: the map of the load balancer, which applications read too."""

    def __init__(self, file: Path, clusters: Mapping[str, str]) -> None:
        self.file = file
        self.clusters = dict(clusters)

    def lead(self, partner: str, cluster: str) -> None:
        self.clusters[partner] = cluster
        self.write()

    def write(self) -> None:
        lines = [f"/ebxml/{name}/ {cluster}\n" for name, cluster in sorted(self.clusters.items())]
        new = self.file.with_suffix(".new")
        new.write_text("".join(lines))
        new.replace(self.file)


class Cluster(Machine):
    """One of them. `shared`: the settings that all of them have."""

    def __init__(self, name: str, folder: Path, port: int, shared: Mapping[str, str]) -> None:
        super().__init__(name, folder, port)
        self._shared = shared

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self._shared}


class Clusters(Machine):
    """All of them as one machine of the demo; `clusters` by partner."""

    def __init__(self, name: str, folder: Path, port: int, clusters: Mapping[str, str]) -> None:
        super().__init__(name, folder, port)
        uri = f"http://127.0.0.1:{port}/ebxml/"
        shared = {
            "MSH_URI": uri,
            "MSH_ERROR_URI": uri,
            "MSH_FERNET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        self.table = Table(folder / "partners.map", clusters)
        self.of = {each: Cluster(each, folder / each, free_port(0), shared) for each in NAMES}

    @property
    def members(self) -> Sequence[Machine]:
        return list(self.of.values())

    @property
    def served(self) -> Iterable[tuple[str, Machine]]:
        return ((partner, self.of[name]) for partner, name in self.table.clusters.items())

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        self.table.write()
        for cluster in self.members:
            cluster.start()
        self._start_balancer()

    def stop(self) -> None:
        super().stop()
        for cluster in self.members:
            cluster.stop()

    async def ready(self) -> None:
        await asyncio.gather(*(cluster.ready() for cluster in self.members))
        await super().ready()

    async def set_up(self, document: Mapping[str, Any]) -> None:
        """Each partner where the table says."""
        for name, cluster in self.of.items():
            partners = [
                each for each in document["partners"] if self.table.clusters[each["name"]] == name
            ]
            await cluster.set_up({**document, "partners": partners})

    def lead(self, partner: str, cluster: str) -> None:
        """To another cluster, from now on."""
        self.table.lead(partner, cluster)
        assert self._up is not None
        self._up.send_signal(signal.SIGUSR2)  # what `systemctl reload haproxy` sends

    def _start_balancer(self) -> None:
        backends = "\n".join(
            f"backend {name}\n    server {name} 127.0.0.1:{cluster.port} check inter 1s"
            for name, cluster in self.of.items()
        )
        configuration = self.folder / "haproxy.cfg"
        names = {"table": self.table.file, "default": NAMES[-1]}
        configuration.write_text(BALANCER.format(port=self.port, backends=backends, **names))
        self._up = processes.spawn(
            [haproxy(), "-W", "-db", "-f", str(configuration)],
            log=self.folder / "log" / "balancer.log",
            death_signal=signal.SIGTERM,
            cwd=ROOT,
            env=self.environment,
        )
