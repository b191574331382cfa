"""The rows of one partner, taken out of one database and put into another, under new ids.

Ids are given in the order of the old ones, so what is ordered by id stays in order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from django.apps import apps
from django.db import connection, models

from msh.models import (
    Attempt,
    Delivery,
    Flight,
    History,
    InboundConversation,
    InboundLink,
    InboundMessage,
    InboundPayload,
    Incident,
    IncidentNote,
    OperatorNotice,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
    PartyEvent,
    Signal,
)
from msh.store.statistics.remove import remove_statistics
from partners.models import Agreement, Credential, Partner

CHUNK = 1 << 20

_TO, _FROM = "SELECT id FROM msh_outboundlink", "SELECT id FROM msh_inboundlink"
_OF = "partner_id = {partner}"
SENT = f"link_id IN ({_TO} WHERE {_OF})"
RECEIVED = f"link_id IN ({_FROM} WHERE {_OF})"
_OF_SENT = f"message_id IN (SELECT id FROM msh_outboundmessage WHERE {SENT})"
OF_RECEIVED = f"message_id IN (SELECT id FROM msh_inboundmessage WHERE {RECEIVED})"

MOVED: dict[type[models.Model], str] = {
    Partner: "id = {partner}",
    Credential: _OF,
    Agreement: _OF,
    OutboundLink: _OF,
    InboundLink: _OF,
    OutboundConversation: SENT,
    InboundConversation: RECEIVED,
    OutboundMessage: SENT,
    OutboundPayload: _OF_SENT,
    Attempt: _OF_SENT,
    PartyEvent: _OF_SENT,
    Flight: SENT,
    InboundMessage: RECEIVED,
    InboundPayload: OF_RECEIVED,
    Delivery: OF_RECEIVED,
    Signal: RECEIVED,
    History: _OF,
    Incident: _OF,
    IncidentNote: f"incident_id IN (SELECT id FROM msh_incident WHERE {_OF})",
}
"""What belongs to a partner, and which rows of it; parents first."""

_ALSO_IDS: dict[tuple[type[models.Model], str], type[models.Model]] = {
    (OutboundConversation, "head"): OutboundMessage,
    (InboundMessage, "turn"): InboundMessage,
}
"""Columns that have ids without being foreign keys."""

# Places in the feed are the microseconds of the other clock. It was read there: nobody asks for
# what is below 0 here.
_ANEW: dict[tuple[type[models.Model], str], str] = {
    (InboundMessage, "feed_position"): (
        "CASE WHEN staged.feed_position IS NOT NULL THEN -r0.new END"
    ),
    # Of a message that was pruned there is none here.
    (Signal, "inbound_id"): """
        CASE WHEN staged.inbound_id = 0 THEN 0 ELSE COALESCE(
            (SELECT new FROM ids_msh_inboundmessage WHERE old = staged.inbound_id), -r0.new) END
    """,
}
"""Columns that get another value; r0.new is the new id."""


@dataclass(frozen=True, slots=True)
class Table:
    model: type[models.Model]

    @property
    def name(self) -> str:
        return self.model._meta.db_table  # noqa: SLF001  public

    @property
    def columns(self) -> list[str]:
        return [field.column for field in self._fields]

    @property
    def has_ids(self) -> bool:
        return self.model._meta.pk.column == "id"  # noqa: SLF001  public

    @property
    def references(self) -> dict[str, type[models.Model]]:
        """The columns with ids of tables that are moved too, and of which."""
        found = {
            field.column: field.related_model
            for field in self._fields
            if field.is_relation and field.related_model in MOVED
        }
        also = {name: of for (model, name), of in _ALSO_IDS.items() if model is self.model}
        return found | also | ({"id": self.model} if self.has_ids else {})

    @property
    def _fields(self) -> list[Any]:
        return list(self.model._meta.concrete_fields)  # noqa: SLF001  public


TABLES = [Table(model) for model in MOVED]


def dump(table: Table, partner: int, file: IO[bytes]) -> None:
    """Write the partner's rows."""
    rows = MOVED[table.model].format(partner=int(partner))
    statement = f"COPY (SELECT {_names(table.columns)} FROM {table.name} WHERE {rows}) TO STDOUT"
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as copy,
    ):
        for data in copy:
            file.write(data)


def stage(table: Table, file: IO[bytes]) -> None:
    """Read rows that `dump` wrote into a temporary table. In the transaction of `insert_staged`."""
    with connection.cursor() as cursor, connection.wrap_database_errors:
        cursor.execute(f"CREATE TEMP TABLE {_staged(table)} (LIKE {table.name}) ON COMMIT DROP")
        with cursor.copy(f"COPY {_staged(table)} ({_names(table.columns)}) FROM STDIN") as copy:
            while data := file.read(CHUNK):
                copy.write(data)


def insert_staged(consumers: dict[int, int]) -> int:
    """Give what is staged its new ids, and insert it. `consumers`: the row ids here, by those
    there. Returns the new id of the partner."""
    with connection.cursor() as cursor:
        for statement in (*_give_ids(), *_translate_consumers(consumers)):
            cursor.execute(statement)
        for table in TABLES:
            cursor.execute(_insert(table))
        cursor.execute(_ORDER_REPLAYS)
        cursor.execute("SELECT new FROM ids_partners_partner")
        (partner,) = cursor.fetchone()
    return int(partner)


# As `replays.insert_replay` gives it.
_ORDER_REPLAYS = """
UPDATE msh_delivery replay SET replay_order = COALESCE(-message.ordered_in_id, message.link_id)
FROM msh_inboundmessage message JOIN ids_msh_inboundmessage ids ON ids.new = message.id
WHERE replay.message_id = message.id AND replay.replay_order IS NOT NULL
"""


def remove(partner: int) -> None:
    """Delete the partner with all that belongs to it: it comes back from where it was moved to.
    `refer_again` is to follow, in the same transaction."""
    with connection.cursor() as cursor:
        for model, key in _KEYS.items():
            table = Table(model)
            rows = f"SELECT id, {key} AS key FROM {table.name} WHERE {MOVED[model]}"
            cursor.execute(
                f"CREATE TEMP TABLE gone_{table.name} ON COMMIT DROP AS"
                f" {rows.format(partner=int(partner))}"
            )
        remove_statistics(partner)  # all that comes back is counted again
        cursor.execute(f"DELETE FROM msh_operatornotice WHERE {_OF}".format(partner=int(partner)))
        for table in reversed(TABLES):
            rows = MOVED[table.model].format(partner=int(partner))
            cursor.execute(f"DELETE FROM {table.name} WHERE {rows}")


def refer_again(partner: int) -> None:
    """What referred to removed rows, such as consumers and statistics, refers to those that have
    come instead. The database checks at the commit that nothing is left."""
    with connection.cursor() as cursor:
        for model, column, of in referring():
            rows = f"SELECT id, {_KEYS[of]} AS key FROM {Table(of).name} WHERE {MOVED[of]}"
            cursor.execute(
                f"UPDATE {Table(model).name} child SET {column} = new.id"
                f" FROM gone_{Table(of).name} gone"
                f" JOIN ({rows.format(partner=int(partner))}) new USING (key)"
                f" WHERE child.{column} = gone.id"
            )


def referring() -> list[tuple[type[models.Model], str, type[models.Model]]]:
    """The columns of other tables that refer to what is moved: they stay where they are."""
    return [
        (model, field.column, field.related_model)
        for model in apps.get_models()
        if model not in MOVED and model is not OperatorNotice
        for field in model._meta.concrete_fields  # noqa: SLF001  public
        if field.is_relation and field.related_model in MOVED and field.column
    ]


_KEYS: dict[type[models.Model], str] = {
    Partner: "''",
    Agreement: "concat_ws(' ', dialect, tpa_id, our_party, their_party)",
    InboundMessage: "message_id",
    OutboundMessage: "message_id",
}
"""By what a row is known again that other tables refer to."""


def _names(columns: Iterable[str]) -> str:
    """One of them is a word of SQL."""
    return ", ".join(f'"{column}"' for column in columns)


def _staged(table: Table) -> str:
    return f"moved_{table.name}"


def _give_ids() -> Iterator[str]:
    for table in TABLES:
        if not table.has_ids:
            continue
        olds = [f"SELECT id FROM {_staged(table)}"]
        olds += [
            f"SELECT {column} FROM moved_{model._meta.db_table} WHERE {column} IS NOT NULL"  # noqa: SLF001
            for (model, column), of in _ALSO_IDS.items()
            if of is table.model and of is model
        ]
        yield (
            f"CREATE TEMP TABLE ids_{table.name} ON COMMIT DROP AS"
            f" SELECT id AS old, nextval(pg_get_serial_sequence('{table.name}', 'id')) AS new"
            f" FROM (SELECT id FROM ({' UNION '.join(olds)}) known ORDER BY id) in_order"
        )
        yield f"CREATE UNIQUE INDEX ON ids_{table.name} (old)"
        yield f"ANALYZE ids_{table.name}"


def _translate_consumers(consumers: dict[int, int]) -> Iterator[str]:
    cases = " ".join(f"WHEN {int(there)} THEN {int(here)}" for there, here in consumers.items())
    if cases:
        yield f"UPDATE {_staged(Table(Delivery))} SET consumer_id = CASE consumer_id {cases} END"


def _insert(table: Table) -> str:
    joins, values = [], []
    for nth, column in enumerate(table.columns):
        of = table.references.get(column)
        if (table.model, column) in _ANEW:
            values.append(_ANEW[table.model, column])
        elif of is None:
            values.append(f'staged."{column}"')
        else:
            joins.append(
                f"LEFT JOIN ids_{of._meta.db_table} r{nth} ON r{nth}.old = staged.{column}"  # noqa: SLF001
            )
            values.append(f"r{nth}.new")
    return (
        f"INSERT INTO {table.name} ({_names(table.columns)})"
        f" SELECT {', '.join(values)} FROM {_staged(table)} staged {' '.join(joins)}"
    )
