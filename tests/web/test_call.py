"""The answer of an application, gathered or sent while it is made."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from msh.web.answer import Answer
from msh.web.call import call
from msh.web.request import Request
from msh.web.spool import Room
from msh.web.stream import KEY


class Application:
    """Answers with `pieces`; an exception among them is raised. `made`: those that were asked for,
    `closed`: the answer was."""

    def __init__(self, *pieces: bytes | Exception, stream: bool = True) -> None:
        self.pieces, self.stream = pieces, stream
        self.made: list[bytes] = []
        self.closed = False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> "Application":
        environ[KEY] = self.stream
        start_response("200 OK", [])
        return self

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            self.made.append(piece)
            yield piece

    def close(self) -> None:
        self.closed = True


class World:
    def __init__(self, disk: int = 100) -> None:
        self.room = Room(memory=100, disk=disk)
        self.begun: list[tuple[Answer, list[bytes]]] = []
        self.environ: dict[str, Any] = {}

    def ask(self, application: Application, *, gone: bool = False) -> Answer | None:
        request = SimpleNamespace(
            with_input=lambda: self.environ, path="/admin/rows/", shown_id="request-1"
        )

        def begin(answer: Answer) -> None:
            self.begun.append((answer, application.made.copy()))
            if gone:
                answer.close()

        return call(cast("Any", application), cast("Request", request), self.room, begin)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    for answer, _ in world.begun:
        answer.close()
    assert world.room.free("disk") == 100


def test_a_stream_begins_with_its_first_piece(world: World) -> None:
    application = Application(b"one", b"two", b"three")
    assert world.ask(application) is None
    [(answer, made)] = world.begun
    assert made == [b"one"]
    assert answer.stream
    assert (answer.stream.is_ended, answer.stream.has_failed) == (True, False)
    assert answer.stream.read(100) == b"onetwothree"
    assert application.closed
    answer.close()
    assert world.room.free("disk") == 100


def test_other_answers_are_gathered(world: World) -> None:
    answer = world.ask(Application(b"one", b"two", stream=False))
    assert answer
    assert answer.body
    assert (answer.length, answer.body.read(), world.begun) == (6, b"onetwo", [])


def test_an_error_before_the_first_piece_is_answered(world: World) -> None:
    application = Application(RuntimeError("broken"))
    answer = world.ask(application)
    assert answer
    assert (answer.code, world.begun, application.closed) == (500, [], True)


@pytest.mark.parametrize("last", [RuntimeError("broken"), b"x" * 100])
def test_an_error_or_a_full_disk_breaks_a_stream_off(world: World, last: bytes | Exception) -> None:
    application = Application(b"one", last)
    assert world.ask(application) is None
    [(answer, _)] = world.begun
    assert answer.stream
    assert answer.stream.has_failed
    assert application.closed


def test_no_room_for_the_first_piece_is_said(world: World) -> None:
    answer = world.ask(Application(b"x" * 101))
    assert answer
    assert (answer.code, world.room.free("disk")) == (503, 100)


def test_nothing_more_is_made_when_the_client_has_gone(world: World) -> None:
    application = Application(b"one", b"two", b"three")
    assert world.ask(application, gone=True) is None
    assert (application.made, application.closed) == ([b"one", b"two"], True)
    assert world.room.free("disk") == 100
