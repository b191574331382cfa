"""Logs: one JSON object a line, ours and the libraries' alike, with what is bound to the context.

A line about a message has its id as a field: `logger.info(…, extra={"message_id": …})`, as
`msh/transport/attempt_log.py`. An application's consumer may bind its own:
`structlog.contextvars.bind_contextvars(order=…)`.
structlog is loaded with the first line, because it takes a tenth of a second: most commands of
`manage.py` say nothing.
"""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import Processor


def logging_config(*, level: str, attempts: bool) -> dict[str, Any]:
    """Django's LOGGING: everything from `level` up goes to standard error as JSON. `attempts`: so
    does a line for each attempt."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "msh.logs.JsonFormatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "celery": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "opentelemetry": {"level": "ERROR"},  # a line for what was given up, none for each try
            "opentelemetry.sdk": {"level": "WARNING"},  # the queue is full
            "msh.attempts": {"level": "INFO" if attempts else "WARNING"},
        },
    }


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _formatter().format(record)


def configure_structlog() -> None:
    """Let loggers of structlog, which an application's consumer may use, write to the same log."""
    import structlog  # noqa: PLC0415

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
def _formatter() -> logging.Formatter:
    import structlog  # noqa: PLC0415

    formatter = structlog.stdlib.ProcessorFormatter
    return formatter(
        foreign_pre_chain=_shared(),
        processors=[formatter.remove_processors_meta, structlog.processors.JSONRenderer()],
    )


def _shared() -> "list[Processor]":
    import structlog  # noqa: PLC0415

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
