"""Any filtered list as a file, CSV or JSON: all rows from one snapshot of the database.

They are sent while they are read, some at a time, so that memory does not grow with their number.
The web server stores what a slow client has not taken yet: it holds no transaction.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from unfold.admin import ModelAdmin

from msh.store.history import Actor
from msh.store.operations.settings_log import record_export
from msh.store.snapshot import snapshot
from msh.web.stream import KEY as STREAM

from .downloads import safe_cell

LIMIT = 100_000
"""Rows of one file."""
AT_ONCE = 1000
"""Rows in memory."""

FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
_RELATED = {
    "agreement": "agreement__tpa_id",
    "consumer": "consumer__name",
    "corrects": "corrects__message_id",
    "link": "link__partner__name",
    "message": "message__message_id",
    "partner": "partner__name",
}
"""Names of rows instead of their ids."""
_CALLED = {"corrects": "instead_of", "link": "partner"}
_MORE = {
    "delivery": {"partner": "message__link__partner__name"},
    "outboundmessage": {"submitted_again_as": "corrected_by__message_id"},
}
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
            count = found.order_by()[: LIMIT + 1].count()
        if count > LIMIT:
            messages.error(request, f"More than {LIMIT} rows match: narrow the filters.")
            return back
        record_export(
            str(self.opts.verbose_name_plural),
            {"format": form, "filters": request.GET.urlencode(), "rows": count},
            Actor(request.user.get_username()),
        )
        moment = timezone.localtime().strftime("%Y%m%d-%H%M%S")
        name = f"{self.opts.model_name}-{moment}.{form}"
        kind = FORMATS[form]
        request.META[STREAM] = True
        response = StreamingHttpResponse(_pieces(form, found), content_type=kind)
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "private, no-store"
        return response


def _pieces(form: str, found: QuerySet[Any]) -> Iterator[str]:
    """The text of the file, that of AT_ONCE rows at a time. Read when it is sent."""
    columns = _columns(found)
    with snapshot():
        read = blocks(found, columns)
        yield from (_csv(list(columns), read) if form == "csv" else _json(read))


def blocks(found: QuerySet[Any], columns: Mapping[str, str]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the rows by descending id in blocks of AT_ONCE; the last one has fewer."""
    last = None
    while True:
        part = found if last is None else found.filter(pk__lt=last)
        values = list(part.values_list("pk", *columns.values())[:AT_ONCE])
        yield [dict(zip(columns, row[1:], strict=True)) for row in values]
        if len(values) < AT_ONCE:
            return
        last = values[-1][0]


def _cell(value: object) -> object:
    if isinstance(value, str | int):  # most are
        return safe_cell(value)
    if isinstance(value, dict | list):
        value = json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
    return value.isoformat() if hasattr(value, "isoformat") else safe_cell(value)


def _csv(names: Sequence[str], found: Iterator[list[Mapping[str, Any]]]) -> Iterator[str]:
    lines: list[Sequence[object]] = [names]
    for block in found:
        text = io.StringIO(newline="")
        lines += [[_cell(value) for value in row.values()] for row in block]
        csv.writer(text, lineterminator="\r\n").writerows(lines)
        yield text.getvalue()
        lines = []


def _json(found: Iterator[list[Mapping[str, Any]]]) -> Iterator[str]:
    before = "[\n"
    for block in found:
        rows = [json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False) for row in block]
        if rows:
            yield before + ",\n".join(rows)
            before = ",\n"
    yield "\n]\n" if before == ",\n" else "[\n]\n"


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
