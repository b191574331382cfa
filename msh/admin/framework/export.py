"""Any filtered list as a file, CSV or JSON: all rows from one snapshot of the database.

The rows are written to a temporary file first: a slow client holds no transaction, and memory does
not grow with their number.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Model, QuerySet
from django.http import FileResponse, HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from unfold.admin import ModelAdmin

from msh.store.history import Actor
from msh.store.operations.settings_log import record_export
from msh.store.snapshot import snapshot

from .downloads import safe_cell

LIMIT = 100_000
"""Rows of one file."""
AT_ONCE = 2000
"""Rows in memory."""
IN_MEMORY = 1024 * 1024
"""Bytes of a file that need no disk."""

FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
_RELATED = {
    "agreement": "agreement__tpa_id",
    "consumer": "consumer__name",
    "link": "link__partner__name",
    "message": "message__message_id",
    "partner": "partner__name",
}
"""Names of rows instead of their ids."""
_CALLED = {"link": "partner"}
_MORE = {"delivery": {"partner": "message__link__partner__name"}}
_LEFT_OUT = {"boundary", "confirmation", "terms"}


class ExportPage(ModelAdmin):
    """A list whose rows can be taken away, by whoever may view it."""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_rows"
        page = path("rows/", self.admin_site.admin_view(self._rows_page), name=name)
        return [page, *super().get_urls()]

    def _rows_page(self, request: HttpRequest) -> HttpResponseBase:
        """POST, with the filters of the list in the address: it is written to the audit log."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        back = HttpResponseRedirect(f"../?{request.GET.urlencode()}")
        form = request.POST.get("format", "")
        if request.method != "POST" or form not in FORMATS:
            return back
        with snapshot():
            found = self.get_changelist_instance(request).queryset.order_by("-pk")
            if found[LIMIT : LIMIT + 1].exists():
                messages.error(request, f"More than {LIMIT} rows match: narrow the filters.")
                return back
            columns = _columns(found)
            file, count = _written(form, list(columns), rows(found, columns))
        record_export(
            str(self.opts.verbose_name_plural),
            {"format": form, "filters": request.GET.urlencode(), "rows": count},
            Actor(request.user.get_username()),
        )
        moment = timezone.localtime().strftime("%Y%m%d-%H%M%S")
        name = f"{self.opts.model_name}-{moment}.{form}"
        kind = FORMATS[form]
        response = FileResponse(file, as_attachment=True, filename=name, content_type=kind)
        response["Cache-Control"] = "private, no-store"
        return response


def rows(found: QuerySet[Any], columns: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """By descending id, some at a time."""
    last = None
    while True:
        part = found if last is None else found.filter(pk__lt=last)
        values = list(part.values_list("pk", *columns.values())[:AT_ONCE])
        yield from (dict(zip(columns, row[1:], strict=True)) for row in values)
        if len(values) < AT_ONCE:
            return
        last = values[-1][0]


def _written(
    form: str, names: Sequence[str], found: Iterator[Mapping[str, Any]]
) -> tuple[IO[bytes], int]:
    """The file, at its beginning, and how many rows are in it. The answer closes it."""
    file: IO[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        count = _write_csv(text, names, found) if form == "csv" else _write_json(text, found)
        text.detach()
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file, count


def _cell(value: Any) -> object:
    if isinstance(value, dict | list):
        value = json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
    return value.isoformat() if hasattr(value, "isoformat") else safe_cell(value)


def _write_csv(
    text: io.TextIOWrapper, names: Sequence[str], found: Iterator[Mapping[str, Any]]
) -> int:
    count = 0
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(names)
    for row in found:
        writer.writerow(map(_cell, row.values()))
        count += 1
    return count


def _write_json(text: io.TextIOWrapper, found: Iterator[Mapping[str, Any]]) -> int:
    count = 0
    text.write("[")
    for count, row in enumerate(found, start=1):
        text.write("\n" if count == 1 else ",\n")
        text.write(json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False))
    text.write("\n]\n")
    return count


def _columns(found: QuerySet[Any]) -> dict[str, str]:
    """Path of each column by its name: no bytes, and rows by their names."""
    model: type[Model] = found.model
    meta = model._meta  # noqa: SLF001  public
    fields = [
        field
        for field in meta.concrete_fields
        if not isinstance(field, models.BinaryField) and field.name not in _LEFT_OUT
    ]
    columns = {
        _CALLED.get(field.name, field.name) if field.name in _RELATED else field.attname: (
            _RELATED.get(field.name, field.attname) if field.is_relation else field.attname
        )
        for field in fields
    }
    if "shown" in found.query.annotations:
        columns["state"] = "shown"
    return columns | _MORE.get(str(meta.model_name), {})
