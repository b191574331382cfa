"""Users and roles: Django's pages, in the layout of the console, with an audit log."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import DropdownFilter, RelatedDropdownFilter
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.models import ApiToken, is_machine
from msh.store.history import Actor
from msh.store.operations.settings_log import record_changes, snapshot

admin.site.unregister([User, Group])


class KindFilter(DropdownFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("person", "Person"), ("machine", "Machine")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        """As `is_machine` decides."""
        unusable = Q(password__startswith=UNUSABLE_PASSWORD_PREFIX) | Q(password="")
        machines = Q(unusable, is_staff=False, is_superuser=False)
        match self.value():
            case "machine":
                return queryset.filter(machines)
            case "person":
                return queryset.exclude(machines)
        return queryset


class AuditedUserForm(AuditedForm, UserChangeForm):
    pass


class AuditedNewUserForm(AuditedForm, UserCreationForm):
    pass


class NewMachineForm(AuditedForm):
    """A machine has no password: it acts by its API tokens."""

    class Meta:
        model = User
        fields = ("username",)

    def save(self, commit: bool = True) -> Any:
        self.instance.set_unusable_password()
        return super().save(commit)


_ABOUT_MACHINES = (
    "A machine user has no password and cannot log in to the console. It acts by its API tokens, of"
    " which each gives it the permissions that its scopes need."
)


def _adds_machine(request: HttpRequest) -> bool:
    """Whether it was asked for a machine: by its address, or from the list of machines."""
    kept = QueryDict(request.GET.get("_changelist_filters", ""))
    return "machine" in (request.GET.get("kind"), kept.get("kind"))


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = AuditedUserForm
    add_form = AuditedNewUserForm
    change_password_form = AdminPasswordChangeForm
    readonly_fields = ("last_login",)  # a page that was open would set it back
    list_display = ("username", "kind", "full_name", "is_active", "roles", "seen")
    list_filter = (KindFilter, ("groups", RelatedDropdownFilter), "is_active")
    sortable_by = ()

    def get_form(
        self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None and _adds_machine(request):
            kwargs["form"] = NewMachineForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        if obj is None and _adds_machine(request):
            return [(None, {"fields": ("username",), "description": _ABOUT_MACHINES})]
        return super().get_fieldsets(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        return users.prefetch_related("groups", "api_tokens")

    @display(description="Kind")
    def kind(self, user: User) -> str:
        if is_machine(user):
            return markup.badge("machine", "info")
        return "person" if user.is_staff else "person, not in the console"

    @display(description="Name")
    def full_name(self, user: User) -> str:
        return user.get_full_name() or markup.DASH

    @display(description="Roles")
    def roles(self, user: User) -> str:
        names = ", ".join(sorted(group.name for group in user.groups.all()))
        return "superuser" if user.is_superuser else names or markup.DASH

    @display(description="Last log-in or token use")
    def seen(self, user: User) -> str:
        times = [user.last_login, *(token.last_used for token in user.api_tokens.all())]
        known = [at for at in times if at is not None]
        return markup.time_and_age(max(known)) if known else markup.DASH

    def audited_rows(self, key: int | None) -> list[QuerySet[Model]]:
        return [*super().audited_rows(key), ApiToken.objects.filter(user=key)]

    def user_change_password(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Recorded too, with a fixed reason: this form of Django has no field for one."""
        key = kwargs["id"]
        users = User.objects.filter(pk=key) if key.isdecimal() else User.objects.none()
        with transaction.atomic():
            before = snapshot(users)
            response: HttpResponse = super().user_change_password(request, *args, **kwargs)
            actor = Actor(request.user.get_username(), "new password set")
            record_changes(before, snapshot(users), actor)
        return response


@admin.register(Group)
class GroupAdmin(AuditedAdmin, DjangoGroupAdmin, ModelAdmin):
    fields = ("name", "permissions")
