"""Consumers: which messages are delivered, and to where."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Consumer, ConsumerKind


class ConsumerForm(AuditedForm):
    """`authorization` is stored encrypted and never shown."""

    authorization = forms.CharField(
        required=False,
        strip=True,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
        help_text="HTTP: Authorization header of our requests. Leave empty to keep it, enter none"
        " to remove it.",
    )

    class Meta:
        model = Consumer
        fields = (
            *("name", "enabled", "partner", "service_interface", "action", "kind", "path", "url"),
            *("history", "lease", "attempts", "retry_interval", "on_failure", "resolver"),
        )

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if shown := cleaned.get("authorization"):
            self.instance.show("" if shown == "none" else shown)
        return cleaned


@admin.register(Consumer)
class ConsumerAdmin(AuditedAdmin):
    form = ConsumerForm
    list_display = (
        "name",
        "enabled",
        "partner",
        "service_interface",
        "action",
        "short_kind",
        "destination",
        "fetched",
    )
    readonly_fields = ("fetched",)
    list_select_related = ("partner",)
    search_fields = ("name", "path", "url", "partner__name", "partner__display_name")
    search_help_text = "Name, destination or partner"
    fieldsets = (
        (None, {"fields": ("name", "enabled", "fetched")}),
        ("Messages", {"fields": ("partner", "service_interface", "action")}),
        ("Destination", {"fields": ("kind", "path", "url", "authorization")}),
        ("Attempts", {"fields": ("lease", "attempts", "retry_interval", "on_failure")}),
        ("Once and only once", {"fields": ("history", "resolver")}),
    )

    @admin.display(description="kind", ordering="kind")
    def short_kind(self, consumer: Consumer) -> str:
        return consumer.get_kind_display().partition(":")[0]

    @admin.display(description="destination")
    def destination(self, consumer: Consumer) -> str:
        return consumer.path or consumer.url or "-"

    @admin.display(description="last fetched")
    def fetched(self, consumer: Consumer) -> str:
        return fetched_text(consumer)

    def save_model(
        self, request: HttpRequest, obj: Consumer, form: ConsumerForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        wake_up(WakeUp.DELIVER)

    def has_delete_permission(self, request: HttpRequest, obj: Consumer | None = None) -> bool:
        """A consumer with deliveries cannot be deleted, only disabled."""
        used = obj is not None and obj.deliveries.exists()
        return not used and bool(super().has_delete_permission(request, obj))


def fetched_text(consumer: Consumer) -> str:
    """When the application of a pull consumer last asked for messages."""
    if consumer.kind != ConsumerKind.PULL:
        return markup.DASH
    return markup.ago(consumer.fetched_at) if consumer.fetched_at else "never"
