"""Many messages that were exchanged before, and many partners that have nothing to send.

Messages are copies of those that an MSH has exchanged, with everything that belongs to them: ids of
their own that come in no order, times in the month before the last two days, and bytes cut to a
length, so that ten million find room.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from .msh import Msh
from .report import tell
from .rows import clone, database_size, require_space, reset_ids, without_indexes

AT_ONCE = 200_000
"""Messages of one statement."""
WITH_INDEXES = 1.45
"""What rows and indexes take, as a multiple of what the rows take."""
_NEW_ID = "{base} + (n - 1) * {links} + template.place"
_MESSAGE_ID = f"md5(({_NEW_ID})::text)::uuid::text"
_AT = "now() - interval '32 days' + n * {links} * interval '30 days' / {messages}"


@dataclass(frozen=True)
class _Side:
    """The messages of one direction, and what belongs to one."""

    messages: str
    done: str
    """State of a message with which nothing will happen any more."""
    values: Mapping[str, str]
    children: Mapping[str, tuple[str, Mapping[str, str]]]
    """Table → how its rows are found from the message, and values."""


_OF_MESSAGE = '"row".message_id = message.id'
_HISTORY = (
    '"row".message_id = message.message_id AND "row".direction = \'{direction}\'',
    {"message_id": _MESSAGE_ID, "at": _AT},
)
_OUTBOUND = _Side(
    messages="msh_outboundmessage",
    done="acknowledged",
    values={
        "head": 'substring("row".head, 1, {size})',
        "submitted_at": _AT,
        "first_sent_at": _AT,
        "completed_at": _AT,
    },
    children={
        "msh_outboundpayload": (
            _OF_MESSAGE,
            {"message_id": _NEW_ID, "wire": 'substring("row".wire, 1, {size})'},
        ),
        "msh_attempt": (_OF_MESSAGE, {"message_id": _NEW_ID, "claimed_at": _AT, "ended_at": _AT}),
        "msh_partyevent": (
            _OF_MESSAGE,
            {
                "message_id": _NEW_ID,
                "event_id": "gen_random_uuid()",
                "at": _AT,
                "due": _AT,
                "delivered_at": _AT,
                "feed_position": _NEW_ID,
            },
        ),
        "msh_history": _HISTORY,
    },
)
_INBOUND = _Side(
    messages="msh_inboundmessage",
    done="accepted",
    values={
        "header": 'substring("row".header, 1, {size})',
        "sent_at": _AT,
        "received_at": _AT,
        "state": "'delivered'",
        "delivered_at": _AT,
        "feed_position": _NEW_ID,
    },
    children={
        "msh_inboundpayload": (
            _OF_MESSAGE,
            {"message_id": _NEW_ID, "content": 'substring("row".content, 1, {size})'},
        ),
        "msh_signal": (
            """
            "row".link_id = message.link_id AND "row".ref_to_message_id = message.message_id
                AND "row".kind = 'Acknowledgement' AND "row".pending = 0
            """,
            {
                "inbound_id": _NEW_ID,
                "ref_to_message_id": _MESSAGE_ID,
                "first_at": _AT,
                "due": _AT,
                "expires_at": f"{_AT} + interval '1 day'",
            },
        ),
        "msh_history": _HISTORY,
    },
)


def fill(msh: Msh, direction: str, messages: int, size: int) -> None:
    """Add about so many to what it has sent ("out") or received ("in"), in equal parts to each link
    that has any; a byte string of theirs has at most `size` bytes.

    SystemExit if there is no room for them. The MSH stands still meanwhile.
    """
    with (
        msh.paused("web", "worker", "beat"),
        psycopg.connect(msh.database_url, autocommit=True) as connection,
    ):
        connection.execute("SET session_replication_role = replica")  # no look-ups of foreign keys
        _Filling(msh, connection, direction, messages, size).run()


class _Filling:
    def __init__(
        self,
        msh: Msh,
        connection: "psycopg.Connection",
        direction: str,
        messages: int,
        size: int,
    ) -> None:
        self._msh = msh
        self._connection = connection
        self._side = _OUTBOUND if direction == "out" else _INBOUND
        self._direction = direction
        self._messages = messages
        self._links = 0
        self._given: dict[str, object] = {
            "messages": messages,
            "size": size,
            "direction": direction,
        }

    def run(self) -> None:
        self._choose_templates()
        self._keep_copied_rows()
        with without_indexes(self._connection, (self._side.messages, *self._side.children)):
            self._make()
        for table in (self._side.messages, *self._side.children):
            reset_ids(self._connection, table)
            tell(f"{self._msh.folder.name}: vacuuming {table}")
            self._connection.execute(f"VACUUM (ANALYZE) {table}".encode())
        self._connection.execute("CHECKPOINT")

    def _make(self) -> None:
        rounds = max(1, self._messages // self._links)
        step = max(1, AT_ONCE // self._links)
        before = database_size(self._msh)
        for first in range(1, rounds + 1, step):
            last = min(first + step - 1, rounds)
            self._insert(first, last)
            if first == 1 and last < rounds:
                each = (database_size(self._msh) - before) / last
                size = f"{each / self._links:,.0f} bytes for a message, without indexes"
                tell(f"{self._msh.folder.name}: {size}")
                what = f"{self._messages:,} messages {self._direction}"
                require_space(self._msh, each * WITH_INDEXES * (rounds - last), what)
            tell(f"{self._msh.folder.name}: {last * self._links:,} messages made")

    def _choose_templates(self) -> None:
        """The last message of each link with which all is done."""
        table, done = self._side.messages, self._side.done
        self._connection.execute(
            f"""
            CREATE TEMP TABLE template AS
            SELECT id, row_number() OVER (ORDER BY id) AS place FROM (
                SELECT link_id, max(id) AS id FROM {table}
                WHERE state = '{done}' GROUP BY link_id) last_of_link
            """.encode()
        )
        found = self._connection.execute(
            f"""
            SELECT max(id), (SELECT count(*) FROM template),
                   coalesce(max(sequence_number) FILTER (WHERE epoch = 0), 0) FROM {table}
            """.encode()
        ).fetchone()
        assert found is not None
        if not found[1]:
            raise RuntimeError(f"{self._msh.folder.name} has exchanged nothing to be copied")
        self._links = int(found[1])
        self._given |= {"base": found[0], "links": self._links, "numbered": found[2]}

    def _keep_copied_rows(self) -> None:
        """What is copied, found while there are indexes: temporary table `copied_TABLE`."""
        messages = self._side.messages
        self._connection.execute(
            f"""
            CREATE TEMP TABLE copied_{messages} AS
            SELECT message.* FROM template JOIN {messages} message USING (id)
            """.encode()
        )
        for table, (condition, _) in self._side.children.items():
            self._connection.execute(
                f"""
                CREATE TEMP TABLE copied_{table} AS
                SELECT "row".* FROM copied_{messages} message
                JOIN {table} "row" ON {condition.format_map(self._given)}
                """.encode()
            )

    def _insert(self, first: int, last: int) -> None:
        numbers = f"CROSS JOIN generate_series({first}, {last}) n"
        copied = f"template JOIN copied_{self._side.messages}"
        rows = f'FROM {copied} "row" USING (id) {numbers} ORDER BY n'
        common = {
            "id": _NEW_ID,
            "message_id": _MESSAGE_ID,
            "conversation_id": _MESSAGE_ID,
            "epoch": "0",
            "sequence_number": "{numbered} + n",
        }
        clone(
            self._connection,
            self._side.messages,
            rows,
            self._filled({**common, **self._side.values}),
        )
        for table, (condition, values) in self._side.children.items():
            belongs = condition.format_map(self._given)
            child = f'{copied} message USING (id) JOIN copied_{table} "row" ON {belongs}'
            clone(
                self._connection, table, f"FROM {child} {numbers} ORDER BY n", self._filled(values)
            )

    def _filled(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: value.format_map(self._given) for name, value in values.items()}


_QUIET = """FROM partners_agreement "row"
    JOIN partners_partner first ON first.id = "row".partner_id AND first.name = 'pair-000'
    CROSS JOIN partners_partner quiet WHERE quiet.name LIKE 'quiet-%'"""


def add_quiet_partners(msh: Msh, count: int) -> None:
    """Copies of the first pair's partner, each with an agreement and both links, that were in use
    and have nothing to send or to get."""
    uri = "'http://quiet-' || n || '.example/ebxml/'"
    with psycopg.connect(msh.database_url, autocommit=True) as connection:
        clone(
            connection,
            "partners_partner",
            f'FROM partners_partner "row", generate_series(1, {count}) n'
            " WHERE \"row\".name = 'pair-000'",
            {
                "name": "'quiet-' || n",
                "uri": uri,
                "uri_normalised": uri,
                "address": uri,
                "in_use": "true",
            },
        )
        clone(
            connection,
            "partners_agreement",
            _QUIET,
            {"partner_id": "quiet.id", "tpa_id": "quiet.name"},
        )
        for table in ("msh_outboundlink", "msh_inboundlink"):
            rows = f"""
                INSERT INTO {table} (partner_id)
                SELECT id FROM partners_partner WHERE name LIKE 'quiet-%'
            """
            connection.execute(rows.encode())
            connection.execute(f"VACUUM (ANALYZE) {table}".encode())
        connection.execute("ANALYZE partners_partner, partners_agreement")
    tell(f"{msh.folder.name}: {count:,} quiet partners added")
