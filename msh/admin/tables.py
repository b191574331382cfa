"""Tables below the fields of a page, as values that `admin/msh/tables.html` shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` hold a cell for each of `headers`; `empty` is said where there are none.
    `more` is the address of the whole, where these are only the first rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str
    more: str = ""
