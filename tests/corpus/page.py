"""The table of the corpus in docs/ebms2.md, between two marks."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/ebms2.md"
_BEGIN, _END = "<!-- corpus:begin -->\n", "<!-- corpus:end -->\n"


def table_in(page: str) -> str:
    return page.partition(_BEGIN)[2].partition(_END)[0]


def with_table(page: str, table: str) -> str:
    before, _, rest = page.partition(_BEGIN)
    return before + _BEGIN + table + _END + rest.partition(_END)[2]
