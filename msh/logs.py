"""Logs: one JSON object a line, ours and the libraries' alike, with what is bound to the context.

A line about a message has its id as a field: `logger.info(…, extra={"message_id": …})`, as
`msh/transport/carrier.py`. An application's consumer may bind its own:
`structlog.contextvars.bind_contextvars(order=…)`.
structlog is loaded with the first line, because it takes a tenth of a second: most commands of
`manage.py` say nothing.
"""

import logging
from contextvars import ContextVar
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request to the API that is being answered. Each line logged meanwhile has it."""


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
        from msh.log_lines import formatter  # noqa: PLC0415  structlog: see above

        if number := request_id.get():
            record.request_id = number
        return formatter().format(record)
