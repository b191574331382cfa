"""The certificate for STARTTLS is replaced while the server runs."""

import logging
import shutil
import smtplib
import ssl
from pathlib import Path

import pytest

from msh.certificates import ServerCertificate
from msh.smtpd import Listening
from tests.certificates import write_certificate
from tests.smtpd.conftest import serving


def made(folder: Path) -> tuple[Path, Path]:
    """The files of a certificate and of its key."""
    folder.mkdir()
    both = write_certificate(folder).read_bytes()
    key, mark, certificate = both.partition(b"-----BEGIN CERTIFICATE-----")
    (folder / "tls.key").write_bytes(key)
    (folder / "tls.crt").write_bytes(mark + certificate)
    return folder / "tls.crt", folder / "tls.key"


def shown(port: int) -> bytes:
    """The certificate that a new connection gets, as DER."""
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.starttls(context=trusting_any())
        assert isinstance(smtp.sock, ssl.SSLSocket)
        return smtp.sock.getpeercert(binary_form=True) or b""


def trusting_any() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def der(file: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(file.read_text())


def test_a_replaced_certificate_is_that_of_new_connections(
    db: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = made(tmp_path / "old"), made(tmp_path / "new")
    live = [Path(shutil.copy(file, tmp_path)) for file in old]
    with (
        caplog.at_level(logging.INFO, "msh.certificates"),
        serving(Listening("127.0.0.1", 0, ServerCertificate(*live))) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=20) as open_already,
    ):
        open_already.starttls(context=trusting_any())
        assert shown(port) == der(old[0])
        shutil.copy(new[0], live[0])  # its key is still the old one
        assert [shown(port), shown(port)] == [der(old[0])] * 2
        live[1].unlink()
        assert shown(port) == der(old[0])
        shutil.copy(new[1], live[1])
        assert [shown(port), shown(port)] == [der(new[0])] * 2
        assert open_already.noop()[0] == 250
    levels = [one.levelno for one in caplog.records if one.name == "msh.certificates"]
    assert levels == [logging.WARNING, logging.WARNING, logging.INFO]
