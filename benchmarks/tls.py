"""HAProxy in front of an MSH: what partners that use TLS connect to.

One process, as many threads as the machine has cores, keep-alive on both sides, TLS 1.3, a key on
the curve P-256.
"""

import datetime
import ipaddress
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from msh.processes import spawn, stop

from .msh import free_port

_CONFIGURATION = """\
global
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend partners
    bind 127.0.0.1:{port} ssl crt {certificate} ssl-min-ver TLSv1.3 alpn http/1.1
    http-request set-header X-Forwarded-Proto https
    default_backend msh
backend msh
    http-reuse always
    option forwardfor
    server msh 127.0.0.1:{backend}
"""
_WITHIN = 10.0  # seconds


class TlsProxy:
    """Runs for the time of a `with`. `authority` is the file that clients trust."""

    def __init__(self, folder: Path, backend: int) -> None:
        self.port = free_port()
        self.authority = folder / "authority.pem"
        self._folder = folder
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = haproxy_path()
        self._folder.mkdir(parents=True)
        certificate = self._folder / "server.pem"
        key, signed = _certificate()
        certificate.write_bytes(signed + key)
        self.authority.write_bytes(signed)
        configuration = self._folder / "haproxy.cfg"
        configuration.write_text(
            _CONFIGURATION.format(port=self.port, certificate=certificate, backend=self._backend)
        )
        log = self._folder / "haproxy.log"
        self._process = spawn([program, "-db", "-f", str(configuration)], log=log)
        deadline = time.monotonic() + _WITHIN
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise RuntimeError(f"no HAProxy:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            stop(self._process, seconds=_WITHIN)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True


def haproxy_path() -> str:
    """SystemExit, with what to do, if there is none."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise SystemExit("HAProxy is missing: apt-get install haproxy, or leave out receive_16_tls")
    return program


def _certificate() -> tuple[bytes, bytes]:
    """A key and a certificate for 127.0.0.1 that it has signed itself, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, signed.public_bytes(serialization.Encoding.PEM)
