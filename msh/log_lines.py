"""Lines of logs as structlog makes them (`msh/logs.py`)."""

import logging
from functools import cache

import structlog
from structlog.typing import Processor


def configure_structlog() -> None:
    """Let loggers of structlog, which an application's consumer may use, write to the same log."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


@cache
def formatter() -> logging.Formatter:
    lines = structlog.stdlib.ProcessorFormatter
    return lines(
        foreign_pre_chain=_shared(),
        processors=[lines.remove_processors_meta, structlog.processors.JSONRenderer()],
    )


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
