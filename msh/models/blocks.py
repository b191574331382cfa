"""Indexes on values that come in no order, such as the ids of others, by blocks of rows.

An entry at a random place of a large index reads a page of its own, and after a checkpoint its
first change writes the whole page to the write-ahead log: the more is stored, the more costs a
message. So such an index begins with the block of the row, a run of ids: what is inserted goes to
the part of the newest block, however long the index is. A search probes each block.
"""

from typing import Any

from django.db import models
from django.db.models import Max, Min


class Block(models.Func):
    """The block of an id: 65,536 ids are one block. With fewer, a search would probe more; the part
    of one block, about 6 MB, has to fit into `shared_buffers`."""

    function = ""
    template = "(%(expressions)s >> 16)"
    arity = 1
    output_field: Any = models.BigIntegerField()


def blocks_of(model: type[models.Model]) -> list[int]:
    """All block numbers of the table, for an `IN` condition: PostgreSQL probes the index once for
    each."""
    ids = model._default_manager.aggregate(first=Min("pk"), last=Max("pk"))  # noqa: SLF001  public
    return list(range((ids["first"] or 0) >> 16, ((ids["last"] or 0) >> 16) + 1))
