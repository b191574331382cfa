"""A WSGI application, called in a thread with a request that is whole; its answer, gathered."""

import logging
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

from .answer import Answer, refusal
from .request import Request
from .spool import NoRoomError, Room, Spool

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # seconds
Header = tuple[str, str]
Started = tuple[str, list[Header]]


class _File:
    """What an application answers with, if its body is a file: it is sent by the event loop."""

    def __init__(self, file: IO[bytes], _block_size: int = 0) -> None:
        self.file = file


def call(application: "WSGIApplication", request: Request, room: Room) -> Answer:
    """Never raises: what goes wrong is logged, and answered with 500."""
    try:
        return _call(application, request, room)
    except NoRoomError:
        return refusal(request.path, 503, "no memory left for the response", wait=RETRY_AFTER)
    except Exception:  # no request ends the thread that serves it
        logger.exception("500 to %s", request.path)
        return refusal(request.path, 500, "internal server error")


def _call(application: "WSGIApplication", request: Request, room: Room) -> Answer:
    started: list[Started] = []

    def start_response(status: str, headers: list[Header], _: object = None) -> Any:
        started.append((status, headers))

    environ = request.with_input()
    environ["wsgi.file_wrapper"] = _File
    result: Any = application(environ, start_response)
    if isinstance(result, _File):
        return Answer(*started[-1], body=result.file)
    spool = _gather(result, room)
    if not spool.size:
        return Answer(*started[-1], length=0)
    return Answer(*started[-1], body=spool.reader(), length=spool.size, spool=spool)


def _gather(result: Iterable[bytes], room: Room) -> Spool:
    spool = Spool(room)
    try:
        for piece in result:
            if piece:
                spool.add(piece)
    except BaseException:
        spool.close()
        raise
    finally:
        if hasattr(result, "close"):
            result.close()
    return spool
