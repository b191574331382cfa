"""Answers to partners: a status, a reason as one line, and a body if the dialect has one."""

from collections.abc import Mapping

from django.http import HttpResponse

from msh.flows.receiving.answer import Answer
from msh.wire.dialect import Entity

RETRY_AFTER = 5  # seconds that a partner is asked to wait while the store is down
REASON_LIMIT = 200  # characters of X-MSH-Error


def compose(
    status: int,
    reason: str = "",
    headers: Mapping[str, str] | None = None,
    entity: Entity | None = None,
) -> HttpResponse:
    """No body unless the dialect has one (000-058)."""
    answer = HttpResponse(status=status, headers=headers)
    if entity is not None:
        answer.content, answer["Content-Type"] = entity.body, entity.content_type
        for name, value in entity.headers:
            answer[name] = value
    else:
        del answer["Content-Type"]
    if status != 204:
        answer["Content-Length"] = str(len(answer.content))
    if reason:
        line = " ".join(reason.split())[:REASON_LIMIT]
        answer["X-MSH-Error"] = line.encode("ascii", "replace").decode()
    return answer


def answered(answer: Answer) -> HttpResponse:
    headers = None if answer.wait is None else {"Retry-After": str(answer.wait)}
    return compose(answer.status, answer.reason, headers, answer.entity)


def later(reason: str) -> HttpResponse:
    return compose(503, reason, {"Retry-After": str(RETRY_AFTER)})
