"""Order in a load: all rows of a pair go to one task, which writes them one after the other."""

from pyspark.sql import DataFrame

PAIR_COLUMNS = ("partner", "tpa_id")
"""Which pair a row belongs to: its partner, or without that column its agreement."""


def pair_column(columns: list[str]) -> str:
    """Raises ValueError if there is none."""
    for name in PAIR_COLUMNS:
        if name in columns:
            return name
    raise ValueError(f"To be ordered by pair, rows need a column {' or '.join(PAIR_COLUMNS)}.")


def ordered_by_pair(messages: DataFrame, order_column: str) -> DataFrame:
    """The same rows, each pair's in one partition and there in the order of `order_column`.

    Write the result with option orderColumn: it fails where the order was lost on the way. One
    partner with several agreements needs the column `partner`, or each is a pair of its own.
    """
    pair = pair_column(messages.columns)
    return messages.repartition(pair).sortWithinPartitions(order_column)
