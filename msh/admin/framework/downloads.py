"""Tables as files that spreadsheets open."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from django.http import StreamingHttpResponse

_FORMULA = re.compile(r"\s*[=+\-@\t\r\n]")
"""A spreadsheet computes a cell that begins like this."""


def csv_response(
    name: str, headers: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    response = StreamingHttpResponse(
        csv_lines([headers, *rows]), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Text that a partner or a user chose is never a formula; numbers stay numbers."""
    for row in rows:
        line = StringIO()
        csv.writer(line).writerow([safe_cell(value) for value in row])
        yield line.getvalue()


def safe_cell(value: object) -> object:
    """Return the value in a form that no spreadsheet takes for a formula, whatever a partner has
    sent (OWASP)."""
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if value is None else value
