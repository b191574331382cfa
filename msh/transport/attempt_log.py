"""A line in the log for each POST or mail of a message or signal, with MSH_LOG_ATTEMPTS."""

import logging
from urllib.parse import urlsplit

from msh.protocol.attempt import AttemptResult
from msh.transport.job import Job

NAME = "msh.attempts"
_logger = logging.getLogger(NAME)


def log_attempt(job: Job, result: AttemptResult | None, seconds: float) -> None:
    """`result` None: it was stale, nothing was written. What is posted to applications and to
    operators has no line: their addresses may hold secrets, and they have pages of their own."""
    if not _logger.isEnabledFor(logging.INFO):
        return
    partner_id = getattr(job.key, "partner_id", None)
    acknowledged = getattr(job.key, "ref_to_message_id", "")
    message_id = getattr(job.key, "message_id", acknowledged)
    if partner_id is None or not message_id:
        return
    fields = {
        "message_id": message_id,
        "partner_id": partner_id,
        "attempt": getattr(job.key, "attempt", None),
        "signal": getattr(job.key, "kind", None),
        "host": urlsplit(job.url).hostname or job.url.rpartition("@")[2],
        "bytes": len(job.body),
        "seconds": round(seconds, 4),
        "outcome": result.outcome.value if result else "stale",
        "status": result.status if result else None,
        "detail": result.detail if result else "",
    }
    known = {name: value for name, value in fields.items() if value not in (None, "")}
    _logger.info("attempt", extra=known)
