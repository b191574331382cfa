"""How far the run is: one glance into the database of an MSH, for progress and for the end."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from .machines import Machine

Held = tuple[str, str]
"""A partner's name and the MessageId of a message to it that waits for an operator."""


@dataclass(frozen=True, slots=True)
class Glance:
    delivered: int
    open_messages: int
    """Of the sender: not ended. Of the receiver: neither delivered nor sent on."""
    suspended: tuple[str, ...]
    """Names of the partners to whom sending is suspended."""
    held: tuple[Held, ...] = ()

    @property
    def quiet(self) -> bool:
        """Nothing is left to send or deliver. Acks may still be pending, for copies of the past."""
        return not (self.open_messages or self.suspended)


_GLANCE = """
SELECT (SELECT count(*) FROM demo_received),
       (SELECT count(*) FROM msh_outboundmessage
        WHERE state IN ('queued', 'in_flight', 'flying'))
       + (SELECT count(*) FROM msh_inboundmessage
          WHERE state NOT IN ('delivered', 'forwarding', 'forwarded')),
       ARRAY(SELECT partner.name::text FROM msh_outboundlink link
             JOIN partners_partner partner ON partner.id = partner_id
             WHERE link.state = 'suspended'),
       ARRAY(SELECT ARRAY[partner.name::text, message.message_id::text]
             FROM msh_flight flight
             JOIN msh_outboundmessage message ON message.id = flight.message_id
             JOIN msh_outboundlink link ON link.id = flight.link_id
             JOIN partners_partner partner ON partner.id = link.partner_id
             WHERE flight.state = 'held')
"""


def glance(connection: psycopg.Connection) -> Glance:
    row = connection.execute(_GLANCE).fetchone()
    assert row is not None
    delivered, open_messages, suspended, held = row
    return Glance(
        delivered, open_messages, tuple(suspended), tuple((who, what) for who, what in held)
    )


@contextmanager
def connections(machines: Iterable[Machine]) -> Iterator[dict[str, psycopg.Connection]]:
    """One to the database of each MSH, by its name."""
    with ExitStack() as stack:
        opened = {}
        for machine in machines:
            opened[machine.name] = psycopg.connect(machine.database_url, autocommit=True)
            stack.callback(opened[machine.name].close)
        yield opened
