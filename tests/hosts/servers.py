"""A PostgreSQL with a standby, and a Valkey, each on a host of its own."""

import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg

from msh import processes
from msh.standalone.embedded.postgresql import PostgreSQL
from msh.standalone.embedded.valkey import Valkey
from tests.hosts.network import Host
from tests.hosts.server_clock import ServerClock
from tests.waiting import wait_until

_HBA = """
host all         all 0.0.0.0/0 scram-sha-256
host replication all 0.0.0.0/0 scram-sha-256
"""


class Primary(PostgreSQL):
    """Each commit waits for the standby's disk, once there is a standby."""

    stop_signal = signal.SIGQUIT  # at once, also when the standby cannot be reached any more
    options = {"synchronous_standby_names": "*"}

    def __init__(self, folder: Path, host: Host, clock: ServerClock) -> None:
        folder.mkdir()
        super().__init__(folder, fsync=False)
        self.host = host
        self.clock = clock

    def begin(self, port: int) -> subprocess.Popen[bytes]:
        self._disown_lock_file()
        options = {
            "listen_addresses": "*",
            "unix_socket_directories": "",
            "port": port,
            "max_connections": 200,
            "fsync": "off",
            **self.options,
        }
        with self.host.inside(), self.clock.followed():
            words = [f"--{name}={value}" for name, value in options.items()]
            return self._spawn("postgres", *words, data=self._data)

    def url(self, database: str = "postgres") -> str:
        return f"postgres://postgres:{quote(self.password)}@{self.address}/{database}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host.address}:{self._port}"

    @property
    def password(self) -> str:
        return self._password_file.read_text()

    def _initialise(self) -> None:
        super()._initialise()
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write(_HBA)


class Standby(Primary):
    """It follows the primary over a cable between their hosts."""

    options = {"wal_retrieve_retry_interval": "200ms"}

    def __init__(self, folder: Path, host: Host, clock: ServerClock, primary: Primary) -> None:
        super().__init__(folder, host, clock)
        self._primary = primary

    def wait_until_it_follows(self) -> None:
        with psycopg.connect(self._primary.url(), autocommit=True) as session:
            said = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: session.execute(said).fetchone() == (1,))

    def promote(self) -> None:
        """Returns when it can be written to."""
        with psycopg.connect(self.url(), autocommit=True) as session:
            assert session.execute("SELECT pg_promote()").fetchone() == (True,)

    def _initialise(self) -> None:
        cable = self._primary.host.connect(self.host)
        self._data.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self._data, self._user.uid, self._user.gid)
        shutil.copy(self._primary._password_file, self._password_file)
        where = f"host={cable.addresses[1]} port={self._primary._port}"
        name = f"user=postgres password={self.password}"
        with self.host.inside():
            copying = self._spawn(
                *("pg_basebackup", "--checkpoint=fast", "--no-sync", "--write-recovery-conf"),
                f"--dbname={where} {name}",
                data=self._data,
            )
        if copying.wait() != 0:
            raise self.failure("cannot copy the primary")


class Cache(Valkey):
    def __init__(self, folder: Path, host: Host, clock: ServerClock) -> None:
        super().__init__(folder)
        self.host = host
        self.clock = clock

    def begin(self, port: int) -> subprocess.Popen[bytes]:
        settings = f'bind 0.0.0.0\nport {port}\nrequirepass {self._password}\nsave ""\n'
        with self.host.inside(), self.clock.followed():
            return processes.spawn([self._binary, "-"], log=self.log, stdin=settings.encode())

    def answers(self, pid: int, port: int) -> bool:
        with self.host.inside():
            return super().answers(pid, port)

    def url(self) -> str:
        return f"redis://:{self._password}@{self.host.address}:{self._port}/0"

    def vanish(self) -> None:
        """And the host with it: nobody hears of the end of the process."""
        self.host.vanish()
        assert self._process
        processes.stop(self._process, by=signal.SIGKILL)

    def come_back(self) -> None:
        """Empty. It knows no connection: who sends on one of before gets a reset."""
        self._process = self.begin(self._port)
        wait_until(lambda: self.answers(self.pid, self._port))
        self.host.come_back()
