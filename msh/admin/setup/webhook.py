"""Webhooks: addresses of applications that are told what became of submitted messages."""

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelect2MultipleWidget

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin
from msh.admin.framework.signing import SigningForm, show_new_secret
from msh.flows.sending import webhooks
from msh.models import Webhook
from msh.protocol.kinds import PartyEventKind
from partners.models import Partner


class WebhookForm(SigningForm):
    # Not the fields of the model: the admin makes lists of them, without choices or a search.
    kinds = forms.MultipleChoiceField(
        choices=[(kind.value, kind.value) for kind in PartyEventKind],
        required=False,
        widget=UnfoldAdminSelect2MultipleWidget(),
        help_text="Only events of these kinds. None selected: all.",
    )
    partners = forms.ModelMultipleChoiceField(
        Partner.objects.all(),
        required=False,
        widget=UnfoldAdminSelect2MultipleWidget(),
        help_text="Only events of messages to these partners. None selected: all.",
    )

    class Meta:
        model = Webhook
        fields = ("name", "enabled", "url", "kinds", "partners")


@admin.register(Webhook)
class WebhookAdmin(AuditedAdmin):
    form = WebhookForm
    list_display = ("name", "status", "wanted", "of_partners", "url")
    sortable_by = ("name",)
    search_fields = ("name", "url")
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("Events", {"fields": ("kinds", "partners")}),
        ("Destination", {"fields": ("url", "signing")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        rows: QuerySet[Webhook] = super().get_queryset(request)
        return rows.prefetch_related("partners")

    @display(description="State")
    def status(self, webhook: Webhook) -> str:
        if not webhook.enabled:
            return markup.badge("off", "warning")
        if not webhook.tries:
            return markup.badge("ok", "success")
        return markup.badge(f"failing: {webhook.tries} attempts", "danger")

    @display(description="Events")
    def wanted(self, webhook: Webhook) -> str:
        return ", ".join(webhook.kinds) or "all"

    @display(description="Partners")
    def of_partners(self, webhook: Webhook) -> str:
        return ", ".join(partner.name for partner in webhook.partners.all()) or "all"

    def save_model(
        self, request: HttpRequest, obj: Webhook, form: WebhookForm, change: bool
    ) -> None:
        if not change:
            webhooks.begin(obj)
        super().save_model(request, obj, form, change)
        show_new_secret(request, obj)
