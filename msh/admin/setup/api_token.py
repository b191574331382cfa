"""Tokens of the REST API: create and delete them. The secret is shown once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import ForeignKey, Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelect2MultipleWidget, UnfoldAdminTextareaWidget

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.admin.framework.time_format import format_duration
from msh.admin.framework.time_zone import LocalTimeField
from msh.flows.operations import tokens
from msh.models import ApiToken, Scope, is_machine, missing_permissions
from msh.models.api_token import CLOSE
from partners.models import Partner

SUGGESTED = timedelta(days=365)
FIRST = 10
"""Tokens that the dashboard names."""


SCOPES = {
    Scope.SEND: "Submit messages to partners.",
    Scope.READ: "Read messages, their history and the feed of what was received, without payloads.",
    Scope.READ_PAYLOAD: "Read payloads, with the scope read also in the feed.",
    Scope.CONSUME: "Take the messages of the consumers below, and report what became of each.",
    Scope.OPERATE: "Do what operators do, such as resume a link, as far as its user is permitted.",
}
"""What each scope permits, as a sentence."""


class ScopesWidget(forms.CheckboxSelectMultiple):
    template_name = "admin/msh/setup/scopes.html"


class ApiTokenForm(AuditedForm):
    """Offers the scopes that `maker`, the user who fills it in, has permissions for."""

    maker: Any = None

    # Not the field of the model: unfold's widget for it is a text box, without choices.
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, f"{scope.value}: {text}") for scope, text in SCOPES.items()],
        widget=ScopesWidget(),
        error_messages={
            "invalid_choice": "You cannot give the scope %(value)s: it is unknown, or you lack its"
            " permissions."
        },
    )
    # Not the field of the model: the admin makes a list of it, without a search.
    partners = forms.ModelMultipleChoiceField(
        Partner.objects.all(),
        required=False,
        widget=UnfoldAdminSelect2MultipleWidget(),
        help_text="Only what is of these partners exists for the token. None selected: all.",
    )
    expires = LocalTimeField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expires" in self.fields:
            zone = timezone.get_current_timezone_name()
            self.fields[
                "expires"
            ].help_text = (
                f"The token is refused from then on. Empty: it never expires. Time zone: {zone}."
            )
        if "networks" in self.fields:
            self.fields["networks"].widget = UnfoldAdminTextareaWidget(attrs={"rows": 2})
        if "scopes" in self.fields:
            offered: Any = self.fields["scopes"]
            offered.choices = [
                choice
                for choice in offered.choices
                if not missing_permissions(self.maker, choice[:1])
            ]

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, Any] = super().clean() or {}
        scopes, user = cleaned.get("scopes", []), cleaned.get("user")
        if user is None and "user" in cleaned:
            self._check_machine(cleaned.get("name", ""), scopes)
        if user and (missing := missing_permissions(user, scopes)):
            self.add_error(
                "scopes",
                f"User {user} lacks the permissions {', '.join(missing)}. Add them to the user, or"
                " choose fewer scopes.",
            )
        try:
            tokens.check_binding(scopes, cleaned.get("consumers", ()))
            tokens.check_consumers(cleaned.get("consumers", ()), cleaned.get("partners", ()))
        except tokens.TokenRefused as refused:
            self.add_error("consumers", str(refused))
        if (expires := cleaned.get("expires")) and expires <= timezone.now():
            self.add_error("expires", "This time is in the past.")
        return cleaned

    def _check_machine(self, name: str, scopes: Sequence[str]) -> None:
        """Its permissions are those of the scopes, and with OPERATE all that it has: the maker must
        have them too."""
        if not self.maker.has_perm("auth.add_user"):
            self.add_error("user", "Choose your own user: you have no permission to add users.")
            return
        if missing := missing_permissions(self.maker, scopes):
            self.add_error("scopes", f"You lack the permissions {', '.join(missing)} yourself.")
        known = User.objects.filter(username=name).first()
        if known is None:
            return
        if not is_machine(known):
            self.add_error("name", "A person has this name: choose that user, or another name.")
        elif Scope.OPERATE in scopes and not self.maker.has_perms(known.get_all_permissions()):
            self.add_error(
                "name",
                "A machine user has this name, and may do what you may not: choose another name.",
            )


_SHOWN = ("owner", "scope_names", "of_partners", "from_networks", "made", "end", "used")


@admin.register(ApiToken)
class ApiTokenAdmin(AuditedAdmin):
    """Tokens cannot be changed. To revoke one, delete it."""

    form = ApiTokenForm
    list_display = ("name", *_SHOWN)
    list_select_related = ("user",)
    sortable_by = ()
    search_fields = ("name", "user__username")
    fields = ("name", "user", "scopes", "consumers", "partners", "expires", "networks")
    readonly_fields = _SHOWN

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if obj is None:
            return self.fields
        return ("name", *_SHOWN[:2], "consumers", *_SHOWN[2:])

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        rows: QuerySet[ApiToken] = super().get_queryset(request)
        return rows.prefetch_related("partners")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_form(self, request: HttpRequest, *args: object, **kwargs: object) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type(form.__name__, (form,), {"maker": request.user})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, object]:
        return {"expires": (timezone.now() + SUGGESTED).replace(second=0, microsecond=0)}

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: object
    ) -> Any:
        """A token has the permissions of its user: only superusers may choose another one."""
        if not request.user.is_superuser:
            kwargs["queryset"] = User.objects.filter(username=request.user.get_username())
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        field.required = False
        field.empty_label = "a machine user with the name of the token"
        return field

    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: ApiTokenForm, change: bool
    ) -> None:
        if form.cleaned_data["user"] is None:
            obj.user = tokens.machine_user(obj.name, obj.scopes)
        secret = obj.generate()
        super().save_model(request, obj, form, change)
        messages.warning(
            request,
            f"Token {obj}: {secret} Copy it now: it is not shown again.",
        )

    @display(description="Scopes")
    def scope_names(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @display(description="Acts as")
    def owner(self, token: ApiToken) -> str:
        if not is_machine(token.user):
            return token.user.get_username()
        return format_html("{} {}", token.user.get_username(), markup.badge("machine", "info"))

    @display(description="Partners")
    def of_partners(self, token: ApiToken) -> str:
        return ", ".join(partner.name for partner in token.partners.all()) or "all"

    @display(description="Networks")
    def from_networks(self, token: ApiToken) -> str:
        return token.networks or "any"

    @display(description="Created")
    def made(self, token: ApiToken) -> str:
        return markup.time_of(token.created)

    @display(description="Expires")
    def end(self, token: ApiToken) -> str:
        return expiry_of(token)

    @display(description="Last used")
    def used(self, token: ApiToken) -> str:
        return markup.time_and_age(token.last_used) if token.last_used else "never"


def expiry_of(token: ApiToken) -> str:
    now = timezone.now()
    if token.expires is None:
        return "never"
    if token.expires <= now:
        return format_html(
            "{} {}", markup.badge("expired", "danger"), markup.time_of(token.expires)
        )
    if token.expires - now > CLOSE:
        return markup.time_of(token.expires)
    left = f"in {format_duration(now, token.expires)}"
    return format_html("{} {}", markup.badge(left, "warning"), markup.time_of(token.expires))


def expiring() -> list[ApiToken]:
    """Return the tokens that expire soon, or have expired already."""
    return list(ApiToken.objects.expiring(timezone.now())[:FIRST])
