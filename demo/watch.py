"""How far the run is: one glance into the database of an MSH, for progress and for the end."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from .machines import Machine


@dataclass(frozen=True, slots=True)
class Glance:
    delivered: int
    open_messages: int
    """Of the sender: queued or in flight. Of the receiver: neither delivered nor sent on."""
    suspended: tuple[str, ...]
    """Names of the partners to whom sending is suspended."""

    @property
    def quiet(self) -> bool:
        """Nothing is left to send or deliver. Acks may still be pending, for copies of the past."""
        return not (self.open_messages or self.suspended)


_GLANCE = """
SELECT (SELECT count(*) FROM demo_received),
       (SELECT count(*) FROM msh_outboundmessage WHERE state IN ('queued', 'in_flight'))
       + (SELECT count(*) FROM msh_inboundmessage
          WHERE state NOT IN ('delivered', 'forwarding', 'forwarded')),
       ARRAY(SELECT partner.name::text
             FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = partner_id
             WHERE link.state = 'suspended')
"""


def glance(connection: psycopg.Connection) -> Glance:
    row = connection.execute(_GLANCE).fetchone()
    assert row is not None
    delivered, open_messages, suspended = row
    return Glance(delivered, open_messages, tuple(suspended))


@contextmanager
def connections(machines: Iterable[Machine]) -> Iterator[dict[str, psycopg.Connection]]:
    """One to the database of each MSH, by its name."""
    with ExitStack() as stack:
        opened = {}
        for machine in machines:
            opened[machine.name] = psycopg.connect(machine.database_url, autocommit=True)
            stack.callback(opened[machine.name].close)
        yield opened
