"""Order in a load: all rows of a pair go to one task, which writes them one after the other."""

import re
from contextlib import redirect_stdout
from io import StringIO

from pyspark.sql import DataFrame

PAIR_COLUMNS = ("partner", "tpa_id")
"""Which pair a row belongs to: its partner, or without that column its agreement."""
ORDERED_BY = "ebxml.ordered_by"
"""In the metadata of the pair's column: the column that the rows of each pair are sorted by."""
UNSTABLE = "ebxml.unstable"
"""In the metadata of a column: what in the plan gives it another value in each run."""
_CHANGES = re.compile(
    r"\b(uuid|rand|randn|random|randstr|uniform|shuffle|monotonically_increasing_id"
    r"|spark_partition_id|input_file_block_start|current_timestamp|current_date|localtimestamp"
    r"|now|unix_timestamp)\((?!\w+#)",
    re.IGNORECASE,
)
"""As plans show them. `unix_timestamp(column#1)` is a function of the row."""


def pair_column(columns: list[str]) -> str:
    """Raises ValueError if there is none."""
    for name in PAIR_COLUMNS:
        if name in columns:
            return name
    raise ValueError(f"To be ordered by pair, rows need a column {' or '.join(PAIR_COLUMNS)}.")


def ordered_by_pair(
    messages: DataFrame, order_column: str, partitions: int | None = None
) -> DataFrame:
    """The same rows, each pair's in one partition and there in the order of `order_column`.

    Write the result with option orderColumn: nothing is sent unless the rows say that they come
    from here. `partitions`: of so many tasks; otherwise Spark decides by their size, and few rows
    are one task. One partner with several agreements needs the column `partner`, or each is a pair
    of its own.
    """
    pair = pair_column(messages.columns)
    spread = (
        messages.repartition(pair) if partitions is None else messages.repartition(partitions, pair)
    )
    marked = _with_mark(spread.sortWithinPartitions(order_column), pair, ORDERED_BY, order_column)
    for name, said in unstable_columns(messages).items():
        marked = _with_mark(marked, name, UNSTABLE, said)
    return marked


def _with_mark(rows: DataFrame, column: str, name: str, value: str) -> DataFrame:
    return rows.withMetadata(column, rows.schema[column].metadata | {name: value})


def unstable_columns(rows: DataFrame) -> dict[str, str]:
    """Columns that are no function of a row of the source, with the function that the plan shows.

    The plan is text, with and without Spark Connect: what is hidden in a function of Python, or in
    a view of another system, is not found.
    """
    printed = StringIO()
    with redirect_stdout(printed):
        rows.explain("extended")
    plan = printed.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    made = dict(_expressions(plan))
    output = plan.strip().partition("\n")[2].partition("\n")[0]
    found = {}
    for name, number in re.findall(r"(\w+)#(\d+)", output):
        if name in rows.columns and (said := _changing(number, made)):
            found[name] = said
    return found


def _expressions(plan: str) -> list[tuple[str, str]]:
    """Number of an attribute → what it is made of, as text."""
    return [
        (found[1], _expression_before(plan, found.start()))
        for found in re.finditer(r" AS [^\s,]+#(\d+)", plan)
    ]


def _expression_before(plan: str, end: int) -> str:
    """Back to the comma or bracket that it stands behind."""
    depth, place = 0, end
    while place > 0 and plan[place - 1] != "\n":
        character = plan[place - 1]
        if character in ")]":
            depth += 1
        elif character in "([":
            depth -= 1
        if depth < 0 or (depth == 0 and character == ","):
            break
        place -= 1
    return plan[place:end]


def _changing(number: str, made: dict[str, str], seen: frozenset[str] = frozenset()) -> str:
    text = made.get(number, "")
    if called := _CHANGES.search(text):
        return f"{called[1]}()"
    others = set(re.findall(r"#(\d+)", text)) - seen - {number}
    return next(filter(None, (_changing(one, made, seen | others) for one in sorted(others))), "")
