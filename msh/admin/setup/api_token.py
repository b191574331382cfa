"""Tokens of the REST API: create and delete them. The secret is shown once."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import ForeignKey, Model
from django.http import HttpRequest
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.flows.operations import tokens
from msh.models import ApiToken, Scope, missing_permissions


class ApiTokenForm(AuditedForm):
    """Offers the scopes that `maker`, the user who fills it in, has permissions for."""

    maker: Any = None

    scopes = forms.MultipleChoiceField(
        choices=Scope.choices, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:
            self.fields["scopes"].choices = [  # type: ignore[attr-defined]
                choice
                for choice in Scope.choices
                if not missing_permissions(self.maker, choice[:1])
            ]

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, Any] = super().clean() or {}
        scopes, user = cleaned.get("scopes", []), cleaned.get("user")
        if user and (missing := missing_permissions(user, scopes)):
            self.add_error(
                "scopes",
                f"User {user} lacks the permissions {', '.join(missing)}. Add them to the user, or"
                " choose fewer scopes.",
            )
        try:
            tokens.check_binding(scopes, cleaned.get("consumers", ()))
        except tokens.TokenRefused as refused:
            self.add_error("consumers", str(refused))
        return cleaned


@admin.register(ApiToken)
class ApiTokenAdmin(AuditedAdmin):
    """Tokens cannot be changed. To revoke one, delete it."""

    form = ApiTokenForm
    list_display = ("name", "user", "scope_names", "created_at")
    list_select_related = ("user",)
    sortable_by = ()
    fields = ("name", "user", "scopes", "consumers")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type(form.__name__, (form,), {"maker": request.user})

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        """A token has the permissions of its user: only superusers may choose another one."""
        if not request.user.is_superuser:
            kwargs["queryset"] = User.objects.filter(username=request.user.get_username())
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: ApiTokenForm, change: bool
    ) -> None:
        secret = obj.generate()
        super().save_model(request, obj, form, change)
        messages.warning(
            request,
            f"Token {obj}: {secret} Copy it now: it is not shown again.",
        )

    @display(description="Scopes")
    def scope_names(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @display(description="Created")
    def created_at(self, token: ApiToken) -> str:
        return markup.time_of(token.created)
