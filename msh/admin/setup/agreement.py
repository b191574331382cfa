"""Agreements of all partners, read-only. They are edited on the page of their partner."""

from collections.abc import Sequence
from datetime import timedelta

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import RelatedDropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditHistory
from msh.admin.framework.pages import ReadOnlyAdmin
from msh.admin.framework.time_format import format_seconds
from partners.models import Agreement
from partners.models.agreement import HORIZONS

from .connection import ConnectionPage
from .import_export import ImportExportPages
from .send_test import SendTestMessage


@admin.register(Agreement)
class AgreementAdmin(ImportExportPages, ConnectionPage, AuditHistory, ReadOnlyAdmin[Agreement]):
    list_display = (
        "tpa_id",
        "partner_page",
        "dialect",
        "our_party",
        "their_party",
        "wait",
        "retries",
        "wait_after_retry",
        "horizon",
        "semantics",
    )
    list_filter = (("partner", RelatedDropdownFilter), "dialect")
    search_fields = (
        *("tpa_id", "our_party", "their_party"),
        *("partner__name", "partner__display_name"),
    )
    search_help_text = "TPAId, PartyId or partner"
    operator_actions = (SendTestMessage(),)
    shown = {"timeout": "wait", "retry_interval": "wait_after_retry"}
    """A setting → the row of the page that shows it."""

    def get_fields(
        self, request: HttpRequest, obj: Agreement | None = None
    ) -> Sequence[str | tuple[str, ...]]:
        """The fields that its dialect has, in pairs."""
        if obj is None:
            return ("tpa_id", "partner_page")
        settings = [self.shown.get(one, one) for one in obj.settings.names.values()]
        shown = [one for one in settings if one not in ("dialect", "tpa_id")]
        pairs = [tuple(shown[i : i + 2]) for i in range(0, len(shown), 2)]
        return [("tpa_id", "partner_page"), *pairs, ("dialect", "horizon"), "kept"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agreement]:
        agreements: QuerySet[Agreement] = super().get_queryset(request)
        return agreements.select_related("partner")

    @display(description="Partner")
    def partner_page(self, agreement: Agreement) -> str:
        return markup.link_to(agreement.partner)

    @display(description="Timeout", ordering="timeout")
    def wait(self, agreement: Agreement) -> str:
        return format_seconds(agreement.timeout)

    @display(description="RetryInterval", ordering="retry_interval")
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
