"""A WSGI application, called in a thread with a request that is whole; its answer, gathered, or
sent while it is made."""

import logging
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any

from .answer import Answer, refusal
from .request import Request
from .spool import NoRoomError, Room, Spool
from .stream import KEY, GoneError, Stream

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # seconds
Header = tuple[str, str]
Started = tuple[str, list[Header]]


class _File:
    """The result of an application whose body is a file. The event loop sends it."""

    def __init__(self, file: IO[bytes], _block_size: int = 0) -> None:
        self.file = file


def call(
    application: "WSGIApplication",
    request: Request,
    room: Room,
    begin: Callable[[Answer], object],
) -> Answer | None:
    """Never raises: what goes wrong is logged, and answered with 500. None: the answer was given to
    `begin`, and all of its body has been made."""
    try:
        return _call(application, request, room, begin)
    except NoRoomError:
        reason = "no memory left for the response"
        return refusal(request.path, 503, reason, wait=RETRY_AFTER, request_id=request.shown_id)
    except Exception:  # no request ends the thread that serves it
        logger.exception("500 to %s", request.path)
        return refusal(request.path, 500, "internal server error", request_id=request.shown_id)


def _call(
    application: "WSGIApplication",
    request: Request,
    room: Room,
    begin: Callable[[Answer], object],
) -> Answer | None:
    started: list[Started] = []

    def start_response(status: str, headers: list[Header], _: object = None) -> Any:
        started.append((status, headers))

    environ = request.with_input()
    environ["wsgi.file_wrapper"] = _File
    result: Any = application(environ, start_response)
    if isinstance(result, _File):
        return Answer(*started[-1], body=result.file)
    if environ.get(KEY):
        _stream(result, room, lambda body: begin(Answer(*started[-1], stream=body)))
        return None
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
        _close(result)
    return spool


def _stream(result: Iterable[bytes], room: Room, begin: Callable[[Stream], object]) -> None:
    """An error before the first piece is raised; a later one breaks the answer off."""
    stream, pieces = Stream(room), iter(result)
    try:
        stream.add(next(pieces, b""))
    except BaseException:
        stream.close()
        _close(result)
        raise
    begin(stream)
    try:
        try:
            for piece in pieces:
                stream.add(piece)
        finally:
            _close(result)
    except GoneError:
        logger.info("a client did not wait for the end of an answer")
    except Exception:
        logger.exception("an answer is broken off")
        stream.end(failed=True)
    else:
        stream.end()


def _close(result: object) -> None:
    if hasattr(result, "close"):
        result.close()
