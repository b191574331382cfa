"""Operators set up partners: who they are, what was agreed, how each shows who it is.

What a partner shows us is generated here and shown once; what we show it goes in and never out.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.admin import StackedInline, TabularInline
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget

from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.flows import operate
from msh.models import InboundLink, OutboundLink
from partners.models import Agreement, Credential, OwnIdentity, Partner, Route
from partners.models.partner import OutgoingKind


class PartnerForm(AuditedForm):
    secret = forms.CharField(
        label="Token, or user:password",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="What the partner gave us to show. Kept encrypted, never displayed again."
        " Blank: stays as it is.",
    )

    class Meta:
        model = Partner
        exclude: tuple[str, ...] = ()
        widgets = {"allowed_networks": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        kind = OutgoingKind(cleaned.get("outgoing_kind", OutgoingKind.NONE))
        stays = kind != OutgoingKind.NONE and "outgoing_kind" not in self.changed_data
        if not (stays and not cleaned.get("secret")):
            self._show(kind, cleaned.get("secret") or "")
        return cleaned

    def _show(self, kind: OutgoingKind, secret: str) -> None:
        try:
            self.instance.show(kind, secret)
        except ValidationError as problem:
            self.add_error("secret", problem)


class AgreementInline(StackedInline):
    """`horizon` is computed anew by the console's script while its fields are edited."""

    model = Agreement
    extra = 0
    readonly_fields = ("horizon",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "tpa_id",
                    ("our_party", "our_party_context"),
                    ("their_party", "their_party_context"),
                    "timeout",
                    "retries",
                    "retry_interval",
                    "horizon",
                    "semantics",
                )
            },
        ),
        (
            "When the partner asks us to wait, starts again, or is late",
            {
                "classes": ("collapse",),
                "fields": (
                    "transient_count_limit",
                    "transient_time_limit",
                    "transient_wait_limit",
                    "on_unexpected_first",
                    "early_warning",
                ),
            },
        ),
    )

    @admin.display(description="Retry horizon")
    def horizon(self, agreement: Agreement) -> str:
        return format_html(
            "<output data-horizon>{} s</output> after its first copy, Timeout + Retries *"
            " RetryInterval, a message that nobody acknowledges suspends sending to the partner.",
            agreement.terms().retry_horizon,
        )


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    def has_changed(self) -> bool:
        """A new row is a wish for a credential, also if its fields were left as they were."""
        adding = self.instance.pk is None
        return adding or super().has_changed()


class CredentialInline(TabularInline):
    """Add one and its secret is generated and shown once; delete the old one when it is in use."""

    model = Credential
    form = CredentialForm
    extra = 0
    fields = ("kind", "label", "created")
    readonly_fields = ("created",)
    verbose_name = "credential that the partner shows"
    verbose_name_plural = "credentials that the partner shows"

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Partner)
class PartnerAdmin(AuditedAdmin):
    form = PartnerForm
    list_display = ("name", "uri", "destination", "tpa_ids")
    search_fields = ("name", "uri", "address", "agreements__tpa_id")
    inlines = (AgreementInline, CredentialInline)
    warn_unsaved_form = True
    fieldsets = (
        (None, {"fields": ("name", "uri", "our_uri")}),
        ("Where we send", {"fields": ("address", "error_address")}),
        ("How we show who we are", {"fields": ("outgoing_kind", "secret")}),
        ("Where it may come from", {"fields": ("allowed_networks",)}),
        ("When it was silent", {"fields": ("resume_on_late_ack", "probe_interval")}),
        (
            "What it may take of us",
            {"fields": ("rate_limit", "undelivered_limit", "undelivered_bytes_limit")},
        ),
    )

    def audited_rows(self, key: int | None) -> list[QuerySet[Any]]:
        agreements = Agreement.objects.filter(partner=key)
        return [*super().audited_rows(key), agreements, Credential.objects.filter(partner=key)]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Partner]:
        partners: QuerySet[Partner] = super().get_queryset(request)
        return partners.prefetch_related("agreements")

    @admin.display(description="agreements")
    def tpa_ids(self, partner: Partner) -> str:
        return ", ".join(agreement.tpa_id for agreement in partner.agreements.all())

    def save_model(self, request: HttpRequest, obj: Partner, form: Any, change: bool) -> None:
        """With its links, so that it can be suspended or held before its first message."""
        super().save_model(request, obj, form, change)
        operate.open_links(obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, ...]:
        """Links that nothing went through go with their partner, though nobody may delete one."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        links = {str(model._meta.verbose_name) for model in (OutboundLink, InboundLink)}  # noqa: SLF001
        return deleted, counts, needed - links, protected

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        if formset.model is Credential:
            for credential in formset.save(commit=False):
                self._generate(request, credential)
        formset.save()

    def _generate(self, request: HttpRequest, credential: Credential) -> None:
        secret = credential.generate()
        messages.warning(
            request,
            f"{credential.get_kind_display()} for {credential.partner}: {secret}"
            " Give it to the partner now: it cannot be displayed again.",
        )


@admin.register(Route)
class RouteAdmin(AuditedAdmin):
    """Parties whose messages are sent on to another MSH."""

    fields = ("to_party", "to_party_context", "partner", "mode")
    list_display = ("to_party", "to_party_context", "partner", "mode")
    list_select_related = ("partner",)
    search_fields = ("to_party", "partner__name")


@admin.register(OwnIdentity)
class OwnIdentityAdmin(AuditedAdmin):
    """Who we are, where it is not what the settings say."""

    fields = ("msh_uri", "error_uri")
    list_display = ("__str__", "error_uri")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and not OwnIdentity.objects.exists()
