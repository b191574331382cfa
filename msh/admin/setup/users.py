"""Users and roles: Django's pages, in the layout of the console, with an audit log."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.models import ApiToken
from msh.store.history import Actor
from msh.store.operations.settings_log import record_changes, snapshot

admin.site.unregister([User, Group])


class AuditedUserForm(AuditedForm, UserChangeForm):
    pass


class AuditedNewUserForm(AuditedForm, UserCreationForm):
    pass


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = AuditedUserForm
    add_form = AuditedNewUserForm
    change_password_form = AdminPasswordChangeForm

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
