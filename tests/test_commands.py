"""What the commands for scripts share: a reason that says something, an MSH that is there."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command, find_commands
from django.db import connection

from msh.flows.receiving import link_status
from msh.models import OutboundMessage
from msh.protocol.link_status import LinkStatus
from msh.standalone.__main__ import WITHOUT_CONSOLE
from partners.models import Agreement, Partner
from tests.exchange.machine import ROOT


@pytest.mark.parametrize("command", ["suspend", "resume", "allow-reset", "reset-sequence"])
@pytest.mark.parametrize("reason", ["", "  "])
def test_empty_reason_is_refused(command: str, reason: str) -> None:
    with pytest.raises(CommandError, match="a reason is required"):
        call_command(command, "acme", "--reason", reason)


def test_an_msh_that_cannot_be_reached_is_one_clear_line() -> None:
    nowhere = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}
    process = subprocess.run(
        [sys.executable, "manage.py", "links", "--json"],
        cwd=ROOT,
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    assert "Specify the MSH with --data FOLDER, MSH_DATA or DATABASE_URL." in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""


SLOW = ["aiohttp", "aiosmtplib", "celery", "drf_spectacular", "lxml", "pyspark", "redis", "rich"]
SLOW += ["rest_framework", "structlog", "unfold"]
"""Packages that take longer to import than a command that reads takes to run."""


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["links", "messages", "messages --counts", "deliveries"])
def test_command_that_reads_loads_nothing_that_is_slow(command: str) -> None:
    """Scripts call them by the hundred."""
    program = (
        f"import sys, manage; sys.argv = {['manage.py', *command.split()]}; manage.main();"
        f" print({{name.partition('.')[0] for name in sys.modules}}.intersection({SLOW}))"
    )
    database = urlsplit(os.environ["DATABASE_URL"])._replace(
        path=f"/{connection.settings_dict['NAME']}"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": database.geturl()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr == ""
    assert process.stdout.splitlines()[-1] == "set()"


def test_trace_loads_nothing_that_is_slow() -> None:
    """Redis only for a message that is overdue."""
    program = (
        "import sys, django; django.setup();"
        " import msh.management.inspection.management.commands.trace;"
        f" print({{name.partition('.')[0] for name in sys.modules}}.intersection({SLOW}))"
    )
    printed = subprocess.check_output(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "msh.management.settings"},
        text=True,
    )
    assert printed.strip() == "set()"


def test_names_of_commands_without_the_console_are_commands() -> None:
    """Those that only their app provides: the settings without the console have no other."""
    folders = ("msh/management", "msh/management/inspection/management")
    commands = {name for folder in folders for name in find_commands(str(ROOT / folder))}
    assert commands >= WITHOUT_CONSOLE


@pytest.mark.django_db
def test_a_database_of_another_version_is_refused() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('msh', '0099_later', now())"
        )
    with pytest.raises(CommandError, match=r"another version of MSH: it has msh\.0099_later"):
        call_command("prepare")


@pytest.mark.django_db
def test_send_asks_for_the_partner_if_several_have_the_agreement(tmp_path: Path) -> None:
    order = tmp_path / "order.xml"
    order.write_text("<order/>")
    for name in ("acme", "other"):
        partner = Partner.objects.create(name=name, uri=f"http://{name}.example/ebxml/")
        Agreement.objects.create(partner=partner, tpa_id="t", our_party="1", their_party="2")
    words = ("send", "--service", "Orders", "--action", "New", "--tpa")

    with pytest.raises(CommandError, match=r"agreement t \(acme, other\): add --partner NAME"):
        call_command(*words, "t", str(order))
    with pytest.raises(CommandError, match="No agreement x"):
        call_command(*words, "x", str(order))
    call_command(*words, "t", "--partner", "other", str(order))
    assert OutboundMessage.objects.get().agreement.partner.name == "other"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            LinkStatus(
                7, "m-7", 4, known={"m-6": True, "m-5": True, "m-8": False}, withheld=("m-5",)
            ),
            [
                "acme accepted number 7 last, MessageId m-7.",
                "Its next number to us is 4.",
                "m-6: accepted",
                "m-5: accepted, being forwarded, not acknowledged yet",
                "m-8: not accepted",
            ],
        ),
        (
            LinkStatus(None, ""),
            [
                "acme has not accepted any message from us yet.",
                "It did not report its next number to us.",
            ],
        ),
    ],
)
def test_link_status_is_told_in_sentences(
    status: LinkStatus,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The partner's answer is scripted: the enquiry itself is proven in tests/endpoint."""
    Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    monkeypatch.setattr(link_status, "enquire", lambda *_: status)
    call_command("link-status", "acme")
    assert capsys.readouterr().out.splitlines() == said
