"""Agreements of all partners, read-only. They are edited on the page of their partner."""

from collections.abc import Container, Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditHistory
from msh.admin.framework.filters import PartnerFilter
from msh.admin.framework.pages import ReadOnlyAdmin, Table
from msh.admin.framework.time_format import format_seconds
from partners.models import Agreement, Dialect
from partners.models.agreement import HORIZONS

from .channel import table_of
from .cpa import CpaPages
from .import_export import ImportExportPages
from .partner import AgreementInline
from .send_test import SendTestMessage


@admin.register(Agreement)
class AgreementAdmin(ImportExportPages, CpaPages, AuditHistory, ReadOnlyAdmin[Agreement]):
    list_display = (
        "tpa_id",
        "partner_page",
        "format",
        "parties",
        "retried",
        "horizon",
    )
    sortable_by = ("tpa_id",)
    list_filter = (("partner", PartnerFilter), "dialect")
    search_fields = (
        *("tpa_id", "our_party", "their_party"),
        *("partner__name", "partner__display_name"),
    )
    search_help_text = "TPAId, PartyId or partner"
    operator_actions = (SendTestMessage(),)
    shown = {"timeout": "wait", "retry_interval": "wait_after_retry"}
    """A setting → the row of the page that shows it."""

    def get_fieldsets(self, request: HttpRequest, obj: Agreement | None = None) -> Any:
        """The groups of the form, with the fields that its dialect has."""
        if obj is None:
            return [(None, {"fields": ("tpa_id", "partner_page")})]
        has = {*obj.settings.names.values(), "horizon"}
        groups: list[tuple[str | None, dict[str, Any]]] = []
        of_form: Any = AgreementInline.fieldsets
        for name, group in of_form:
            rows = [self._shown(row, has) for row in group["fields"]]
            if shown := [row for row in rows if row]:
                groups.append((name, {"fields": shown}))
        groups[0][1]["fields"].insert(0, ("tpa_id", "partner_page"))
        return [*groups, ("Retention", {"fields": [("kept",)]})]

    def tables(self, request: HttpRequest, row: Agreement) -> list[Table]:
        return [table_of(row)] if row.dialect == Dialect.EBMS2 else []

    def _shown(self, row: str | Sequence[str], has: Container[str]) -> tuple[str, ...]:
        names = (row,) if isinstance(row, str) else row
        return tuple(self.shown.get(one, one) for one in names if one in has and one != "tpa_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agreement]:
        agreements: QuerySet[Agreement] = super().get_queryset(request)
        return agreements.select_related("partner")

    @display(description="Partner")
    def partner_page(self, agreement: Agreement) -> str:
        return markup.link_to(agreement.partner)

    @display(description="Dialect")
    def format(self, agreement: Agreement) -> str:
        return _two_lines(agreement.get_dialect_display(), agreement.semantics)

    @display(description="Our party, theirs")
    def parties(self, agreement: Agreement) -> str:
        both = markup.isolated(agreement.our_party), markup.isolated(agreement.their_party)
        return format_html("<div>{}<div>{}</div></div>", *both)

    @display(description="Retries")
    def retried(self, agreement: Agreement) -> str:
        """How many, and the waits before and between them."""
        waits = f"every {format_seconds(agreement.retry_interval)}"
        if agreement.settings.has("timeout"):
            waits = f"after {format_seconds(agreement.timeout)}, then {waits}"
        return _two_lines(agreement.retries, waits)

    @display(description="Timeout")
    def wait(self, agreement: Agreement) -> str:
        return format_seconds(agreement.timeout)

    @display(description="RetryInterval")
    def wait_after_retry(self, agreement: Agreement) -> str:
        return format_seconds(agreement.retry_interval)

    @display(description="Suspends after")
    def horizon(self, agreement: Agreement) -> str:
        return format_seconds(agreement.terms().retry_horizon)

    @display(description="MessageIds kept for")
    def kept(self, agreement: Agreement) -> str:
        days = -(-agreement.ids_kept() // timedelta(days=1))
        return (
            f"at least {days} days: {HORIZONS} times as long as duplicates may arrive, and never"
            " shorter than PersistDuration"
        )


def _two_lines(first: object, second: str) -> str:
    shown = '<div class="msh-time">{}<div class="msh-note">{}</div></div>'
    return format_html(shown, first, second)
