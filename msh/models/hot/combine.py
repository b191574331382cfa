"""Several writes as one statement: the server reads, plans and runs one."""

import re


def given(statement: str, rows: str) -> str:
    """The statement, done only if the CTE `rows` has a row."""
    if found := _VALUES.search(statement):
        insert, values, rest = statement[: found.start()], found[1], statement[found.end() :]
        return f"{insert} SELECT {values} FROM {rows} {rest}"
    return f"{statement} AND EXISTS (SELECT FROM {rows})"


_VALUES = re.compile(r"VALUES \(([^()]*(?:\(\)[^()]*)*)\)")


def together(*statements: str) -> str:
    """One statement that does the same. No two of them may write the same row."""
    named = (f"step_{number} AS ({text})" for number, text in enumerate(statements))
    return f"WITH {', '.join(named)} SELECT"


def if_unchanged(update: str, *statements: str) -> str:
    """One statement that does all of them if `update` finds its row in the version given, or else
    nothing. Returns a row if it did.

    The parameters of `update` come first, and after them the version. Who changes without this
    row what was decided by must write the row nevertheless: see docs/decisions.
    """
    done = ", ".join(
        f"step_{number} AS ({given(text, 'guard')})" for number, text in enumerate(statements)
    )
    return f"WITH guard AS ({update} AND xmin = %s RETURNING id), {done} SELECT id FROM guard"
