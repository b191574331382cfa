"""Agreements of all partners, read-only. They are edited on the page of their partner."""

from datetime import timedelta

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import RelatedDropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import ReadOnlyAdmin
from msh.admin.framework.time_format import format_seconds
from partners.models import Agreement
from partners.models.agreement import HORIZONS

from .connection import ConnectionPage
from .import_export import ImportExportPages


@admin.register(Agreement)
class AgreementAdmin(ImportExportPages, ConnectionPage, ReadOnlyAdmin[Agreement]):
    list_display = (
        "tpa_id",
        "partner_page",
        "our_party",
        "their_party",
        "wait",
        "retries",
        "wait_after_retry",
        "horizon",
        "semantics",
    )
    list_filter = (("partner", RelatedDropdownFilter),)
    search_fields = ("tpa_id", "our_party", "their_party", "partner__name")
    search_help_text = "TPAId, PartyId or partner"
    fields = (
        ("tpa_id", "partner_page"),
        ("our_party", "our_party_context"),
        ("their_party", "their_party_context"),
        ("wait", "retries"),
        ("wait_after_retry", "horizon"),
        ("semantics", "on_unexpected_first"),
        ("transient_count_limit", "transient_time_limit"),
        ("transient_wait_limit", "early_warning"),
        "kept",
    )

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
        return f"at least {days} days: {HORIZONS} times as long as duplicates may arrive (D39)"
