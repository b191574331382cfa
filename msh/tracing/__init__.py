"""Traces of messages from submit to Acknowledgement, for OpenTelemetry: MSH_OTLP_ENDPOINT.

Off, `recorder` is None, and a path pays one look at it: `if tracing.recorder is not None: …`.
Nothing of OpenTelemetry is imported then.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
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


def start(endpoint: str, share: float, uri: str) -> None:
    """Record spans from now on, and send them to `endpoint`. `share`: of messages, 0 to 1; `uri`:
    who we are. The thread that sends begins with the first span of a process."""
    global recorder
    from msh.tracing.spans import Recorder  # noqa: PLC0415

    recorder = Recorder(endpoint, share, uri)


def is_installed() -> bool:
    """The extra `otel`."""
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: PLC0415
        import opentelemetry.sdk  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
