"""What the commands for scripts share: a reason that says something, an MSH that is there."""

import os
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from tests.exchange.machine import ROOT


@pytest.mark.parametrize("command", ["suspend", "resume", "allow-reset", "reset-sequence"])
@pytest.mark.parametrize("reason", ["", "  "])
def test_a_reason_says_something(command: str, reason: str) -> None:
    with pytest.raises(CommandError, match="say why"):
        call_command(command, "acme", "--reason", reason)


def test_an_msh_that_cannot_be_reached_is_one_clear_line() -> None:
    nowhere = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}
    told = subprocess.run(
        [sys.executable, "manage.py", "links", "--json"],
        cwd=ROOT,
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert "Name the MSH by --data FOLDER, MSH_DATA or DATABASE_URL." in told.stderr
    assert "Traceback" not in told.stderr
    assert told.stdout == ""
