"""`manage.py smtpd` as an operator runs it."""

import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]


def test_it_says_where_it_listens_and_ends_on_sigterm() -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "smtpd", "--port", "0", "--json"]
    name = connection.settings_dict["NAME"]
    prepared = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}")
    env = os.environ | {"DATABASE_URL": prepared.geturl()}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        with smtplib.SMTP(ready["host"], ready["port"], timeout=20) as smtp:
            code, offered = smtp.ehlo("x.example")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert code == 250
    assert b"SIZE" in offered
    assert b"AUTH" in offered


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(CommandError, match=f"127.0.0.1:{port} cannot be opened"):
            call_command("smtpd", "--port", str(port))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_is_none_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "cert.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CommandError, match="cannot be used as a certificate"):
        call_command("smtpd", "--cert", str(file))
