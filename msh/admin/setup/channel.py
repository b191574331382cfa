"""The channels of agreements of ebMS 2.0: which Services and Actions, with which terms."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.admin.framework.filters import PartnerFilter
from msh.admin.framework.pages import Table
from partners.models import Agreement, Channel, Dialect


class ChannelForm(AuditedForm):
    """A term of a CPA or of a setup document may be an empty text, which is not the agreement's.
    A field shows no difference, so that it stays what it is."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        for name in self.fields:
            if self.initial.get(name) == "" and self.cleaned_data.get(name, "") is None:
                self.cleaned_data[name] = ""
        return cleaned


@admin.register(Channel)
class ChannelAdmin(AuditedAdmin):
    """What stays empty is as the agreement has it."""

    form = ChannelForm
    fieldsets = (
        (
            None,
            {
                "fields": ("agreement", "direction", ("service", "service_type"), "action"),
                "description": "Once an agreement has channels in one direction, nothing else may"
                " be sent in it; with channels only of what the partner sends, we can send nothing."
                " What is left empty is as the agreement has it.",
            },
        ),
        ("Roles", {"fields": (("our_role", "their_role"),)}),
        (
            "Acknowledgments and order",
            {
                "fields": (
                    ("ack", "eliminates"),
                    ("ordered", "sync_reply"),
                )
            },
        ),
        (
            "Signatures and encryption",
            {
                "fields": (
                    ("signed", "ack_signed"),
                    "encrypted",
                )
            },
        ),
        (
            "Only of what we send",
            {
                "fields": (
                    "address",
                    ("semantics", "ack_actor"),
                    ("retries", "retry_interval"),
                    ("time_to_live", "persist_duration"),
                    ("soap_action", "signature_method"),
                )
            },
        ),
    )
    list_display = ("action", "service", "direction", "partner_page", "agreement_page", "own_terms")
    list_filter = ("direction", ("agreement__partner", PartnerFilter))
    list_select_related = ("agreement__partner",)
    search_fields = ("service", "action", "agreement__tpa_id", "agreement__partner__name")
    search_help_text = "Service, Action, CPAId or partner"

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Only agreements that can have channels, each with its partner: a CPAId may be that of
        several."""
        able = Agreement.objects.filter(dialect=Dialect.EBMS2).select_related("partner")
        given = {**kwargs, "queryset": able}
        field: Any = super().formfield_for_foreignkey(db_field, request, **given)
        field.label_from_instance = lambda agreement: f"{agreement} of {agreement.partner}"
        return field

    def get_readonly_fields(
        self, request: HttpRequest, obj: Channel | None = None
    ) -> Sequence[str]:
        return ("agreement",) if obj else ()

    @display(description="Partner")
    def partner_page(self, channel: Channel) -> str:
        return markup.link_to(channel.agreement.partner)

    @display(description="Agreement")
    def agreement_page(self, channel: Channel) -> str:
        return markup.link_to(channel.agreement)

    @display(description="Terms of its own")
    def own_terms(self, channel: Channel) -> str:
        return terms_text(channel)


def terms_text(channel: Channel) -> str:
    address = {"address": channel.address} if channel.address else {}
    given: dict[str, Any] = channel.terms | address
    return markup.verbatim(", ".join(f"{name} {value}" for name, value in given.items()))


def table_of(agreement: Agreement) -> Table:
    """The channels of an agreement, for its page."""
    channels: QuerySet[Channel] = agreement.channels.all()
    rows = [
        (
            channel.get_direction_display(),
            markup.link_to(channel, channel.action),
            markup.isolated(channel.service),
            terms_text(channel),
        )
        for channel in channels
    ]
    return Table(
        "Channels",
        ("Direction", "Action", "Service", "Terms of its own"),
        rows,
        "None: every Service and Action may be sent, under the terms of the agreement.",
        markup.list_url(Channel, q=agreement.tpa_id),
    )
