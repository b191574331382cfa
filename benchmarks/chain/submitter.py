"""The application that submits, a process of its own."""

from multiprocessing.connection import Connection

from .side import Side

_SUBMIT = """
INSERT INTO outbound (pair, body) VALUES (%s, %b)
RETURNING (SELECT in_flight IS NULL FROM lane WHERE lane.pair = outbound.pair)
"""
START = b"s"
"""Before the number of a pair that has nothing in flight."""


def submit_all(side: Side, told: Connection) -> None:
    """Each message in a commit of its own. The worker is woken if the pair is idle."""
    with side.connect() as database, side.client() as valkey:
        side.ready.wait()
        messages, body = told.recv()
        for number in range(messages):
            for pair in range(side.pairs):
                own = body + b"%d" % number
                row = database.execute(_SUBMIT, (pair, own)).fetchone()
                if row and row[0]:
                    valkey.rpush(side.wake_ups, START + b"%d" % pair)
        told.poll(None)  # until it is ended
