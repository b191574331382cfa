"""The log of attempts: a line of JSON for each, only where it is asked for."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

import pytest

from msh.logs import JsonFormatter, logging_config
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import ATTEMPTS, Carrier, Finished, log_attempt
from msh.transport.job import Job

MakeJob = Callable[..., Job]


@dataclass(frozen=True)
class Copy:
    message_id: str = "m-1@example"
    partner_id: int = 7
    attempt: int | None = 2


@dataclass(frozen=True)
class Ack:
    ref_to_message_id: str = "m-2@example"
    partner_id: int = 7
    kind: str = "ack"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    formatter = JsonFormatter()
    return [json.loads(formatter.format(one)) for one in caplog.records if one.name == ATTEMPTS]


def test_attempt_is_one_line_with_message_partner_and_number(
    carrier: Carrier,
    results: SimpleQueue[Finished],
    job: MakeJob,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, ATTEMPTS)
    carrier.submit([job(key=Copy(), partner_id=7, body=b"12345")])
    results.get(timeout=10)
    (line,) = lines(caplog)
    assert line["seconds"] >= 0  # type: ignore[operator]
    of_others = {"seconds", "timestamp", "logger", "message"}  # the last is pytest's
    kept = {name: line[name] for name in line.keys() - of_others}
    assert kept == {
        "event": "attempt",
        "level": "info",
        "message_id": "m-1@example",
        "partner_id": 7,
        "attempt": 2,
        "host": "127.0.0.1",
        "bytes": 5,
        "outcome": "transmitted",
        "status": 204,
        "detail": "204 No Content",
    }


def test_signals_have_lines_and_notifications_have_none(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, ATTEMPTS)
    failed = AttemptResult(AttemptOutcome.FAILED, detail="ConnectionRefusedError")
    log_attempt(job(key=Ack(), url="mailto:edi@acme.example"), failed, 0.5)
    log_attempt(job(key="event 3", url="https://hook.example/secret"), failed, 0.5)
    (line,) = lines(caplog)
    assert (line["message_id"], line["signal"], line["host"]) == (
        "m-2@example",
        "ack",
        "acme.example",
    )
    assert line["detail"] == "ConnectionRefusedError"
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("attempts", "level"), [(False, "WARNING"), (True, "INFO")])
def test_it_is_off_unless_asked_for(attempts: bool, level: str) -> None:
    config = logging_config(level="WARNING", attempts=attempts)
    assert config["loggers"][ATTEMPTS] == {"level": level}
