"""Business keys: by which values of their payloads messages are found."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.business_keys.models import BusinessKey, KeyRule
from msh.protocol.business_keys import PathRefused
from msh.wire.business_keys import key_path

_WHERE = ("name", "agreement", "service_interface", "action", "path", "namespaces")


class KeyRuleForm(AuditedForm):
    def clean(self) -> dict[str, Any]:
        super().clean()
        if "path" in self.cleaned_data:  # it does not change
            try:
                key_path(self.cleaned_data["path"], self.cleaned_data.get("namespaces", ""))
            except PathRefused as problem:
                self.add_error("path", str(problem))
        return self.cleaned_data


@admin.register(KeyRule)
class KeyRuleAdmin(AuditedAdmin):
    """Where a value stands does not change, for what is indexed would be of both places: another
    rule takes its place."""

    form = KeyRuleForm
    list_display = ("name", "enabled", "agreement", "service_interface", "action", "path", "done")
    list_select_related = ("agreement",)
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("Documents", {"fields": ("agreement", "service_interface", "action")}),
        ("Value", {"fields": ("path", "namespaces")}),
    )

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Agreements of several partners are called the same."""
        field: Any = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if field is not None and db_field.name == "agreement":
            field.queryset = field.queryset.select_related("partner")
            field.label_from_instance = lambda one: f"{one} of {one.partner}"
        return field

    @admin.display(description="stored messages")
    def done(self, rule: KeyRule) -> str:
        if not rule.enabled:
            return "not indexed"
        return "indexed" if rule.is_indexed else "being indexed"

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return _WHERE if obj else ()

    def save_model(self, request: HttpRequest, obj: KeyRule, form: object, change: bool) -> None:
        """Save the rule. How far the job is with it stays as the job has written it meanwhile."""
        obj.save(update_fields=["enabled"] if change else None)

    def has_delete_permission(self, request: HttpRequest, obj: KeyRule | None = None) -> bool:
        """One that is on is switched off first, and its values go in the background."""
        used = obj is not None and (obj.enabled or BusinessKey.objects.filter(rule=obj).exists())
        return not used and bool(super().has_delete_permission(request, obj))
