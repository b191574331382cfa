"""What the jobs have in common: arguments, a session, a summary, an exit status.

0: done, and nothing is wrong. 1: something is, the summary says what. 2: it could not be done,
the last line says why.
"""

import argparse
import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_bridge.client import ApiRefused, ApiUnavailable
from spark_bridge.failures import JobFailed
from spark_bridge.feed import DataLost
from spark_bridge.files import file_system
from spark_bridge.options import OptionRefused
from spark_bridge.session import JavaMissing, open_session

FAILED = 2  # exit status; 1 is a job that was done and found something wrong


@dataclass(slots=True)
class Summary:
    """What a job counted. `good`: nothing that must not be was found."""

    good: bool
    counts: Mapping[str, object]
    seconds: float = field(default=0.0)

    def as_json(self) -> dict[str, object]:
        return {"good": self.good, **self.counts, "seconds": self.seconds}


_SAID = JobFailed, JavaMissing, OptionRefused, ApiRefused, ApiUnavailable, DataLost
"""Errors whose text is for people."""
Job = Callable[[SparkSession, argparse.Namespace], Summary]


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"spark_bridge.{program}", description=description)
    parser.add_argument("--summary", metavar="FILE", help="write the summary there, as JSON")
    return parser


def add_server(
    parser: argparse.ArgumentParser,
    prefix: str = "",
    whose: str = "the MSH",
    *,
    required: bool = True,
) -> None:
    parser.add_argument(f"--{prefix}url", required=required, help=f"address of {whose}")
    token = parser.add_mutually_exclusive_group(required=required)
    token.add_argument(
        f"--{prefix}token-file", metavar="FILE", help="file with the token in its first line"
    )
    token.add_argument(
        f"--{prefix}token-env", metavar="NAME", help="environment variable with the token"
    )


def server_options(arguments: argparse.Namespace, prefix: str = "") -> dict[str, str]:
    """The options of format `ebxml` for what `add_server` added."""
    given = {
        name: getattr(arguments, f"{prefix}{attribute}")
        for name, attribute in (
            ("url", "url"),
            ("tokenFile", "token_file"),
            ("tokenEnv", "token_env"),
        )
    }
    return {name: value for name, value in given.items() if value}


def run(job: Job, arguments: argparse.Namespace, name: str) -> int:
    """Do the job; returns its exit status."""
    try:
        session = open_session(name)
        began = time.monotonic()
        summary = job(session, arguments)
        summary.seconds = round(time.monotonic() - began, 3)
        _print(summary, arguments.summary)
    except _SAID as error:
        return _fail(str(error))
    except PySparkException as error:
        return _fail(_reason(str(error)))
    except Exception as error:  # noqa: BLE001 - status 1 would say that the job was done
        if type(error).__name__ == "Py4JJavaError":  # a client of Spark Connect has no py4j
            return _fail(_reason(str(error)))
        traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error}")
    return 0 if summary.good else 1


def write_json(document: Mapping[str, object], path: str) -> None:
    files, place = file_system(path)
    with files.open_output_stream(place) as stream:
        stream.write(json.dumps(document, indent=2, default=str).encode() + b"\n")


def read_json(path: str) -> dict[str, Any]:
    files, place = file_system(path)
    with files.open_input_stream(place) as stream:
        document: dict[str, Any] = json.loads(stream.read())
    return document


def _print(summary: Summary, path: str | None) -> None:
    figures = summary.as_json()
    width = max(map(len, figures))
    for name, value in figures.items():
        sys.stdout.write(f"{name.replace('_', ' '):{width}}  {value}\n")
    if path:
        write_json(figures, path)


def _fail(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return FAILED


# A line of Spark's traces that names one of our errors: its name, then its sentence.
_OURS = re.compile(
    r"^\s*(?:Caused by: )?(?:(?:spark_bridge|msh_client)\.[a-z]+\.)(\w+): (.+?)"
    r"(?:\s+SQLSTATE: \w+.*)?$",
    re.MULTILINE,
)


def _reason(trace: str) -> str:
    """Our sentence, where it is one of ours; else the first lines of Spark's."""
    ours = _OURS.search(trace)
    return ours[2] if ours else "\n".join(trace.splitlines()[:3])
