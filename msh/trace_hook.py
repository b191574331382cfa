"""Where traces of messages are recorded, from submit to Acknowledgement: MSH_OTLP_ENDPOINT.

Off, `recorder` is None, and a path pays one look at it: `if trace_hook.recorder is not None: …`.
Nothing of OpenTelemetry is imported then.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msh.tracing.spans import Recorder

logger = logging.getLogger(__name__)

recorder: "Recorder | None" = None


@contextmanager
def harmless() -> Iterator[None]:
    """An error becomes a line in the log: what is traced goes on."""
    try:
        yield
    except Exception:
        logger.exception("a span could not be recorded")


def start(new: "Recorder") -> None:
    """Record spans from now on."""
    global recorder
    recorder = new


def is_installed() -> bool:
    """The extra `otel`."""
    try:
        return all(map(find_spec, ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk")))
    except ModuleNotFoundError:  # a package above it
        return False
