"""Tokens of the REST API: made and revoked."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.db import transaction

from msh.models import (
    PERMISSIONS,
    ApiToken,
    Consumer,
    ConsumerKind,
    Scope,
    is_machine,
    missing_permissions,
)
from partners.models import Partner


class TokenRefused(ValueError):
    """`str()` names each field that is wrong, and the cure. Nothing was changed."""


def make(
    name: str,
    scopes: Sequence[str],
    user: Any = None,
    consumers: Sequence[str] = (),
    *,
    partners: Sequence[str] = (),
    expires: datetime | None = None,
    networks: str = "",
) -> tuple[ApiToken, str]:
    """A new token with its secret, which cannot be read again. `consumers` and `partners` are
    names.

    Without a user one of the token's name is made: without a password, and with the permissions
    that the scopes need. Raises TokenRefused.
    """
    with transaction.atomic():
        bound = _pull_consumers(scopes, consumers)
        theirs = _partners(partners)
        check_consumers(bound, theirs)
        if user is None:
            user = machine_user(name, scopes)
        elif missing := missing_permissions(user, scopes):
            raise TokenRefused(
                f"User {user} lacks the permissions {', '.join(missing)} for these scopes: grant"
                " them in the console, or choose fewer scopes."
            )
        token = ApiToken(name=name, scopes=list(dict.fromkeys(scopes)), user=user)
        token.expires, token.networks = expires, networks
        secret = token.generate()
        try:
            token.full_clean()
        except ValidationError as problem:
            texts = problem.message_dict.items()
            raise TokenRefused(
                "; ".join(f"{field}: {' '.join(messages)}" for field, messages in texts)
            ) from None
        token.save()
        token.consumers.set(bound)
        token.partners.set(theirs)
    return token, secret


def check_binding(scopes: Sequence[str], consumers: Collection[Any]) -> None:
    """Raises TokenRefused unless there are consumers with the scope `consume`, and only then."""
    if (Scope.CONSUME in scopes) == bool(consumers):
        return
    if consumers:
        raise TokenRefused(
            "consumers: only tokens with the scope consume can be bound to consumers."
        )
    raise TokenRefused("consumers: name the consumers whose messages the token takes and settles.")


def _pull_consumers(scopes: Sequence[str], names: Sequence[str]) -> list[Consumer]:
    check_binding(scopes, names)
    found = Consumer.objects.filter(kind=ConsumerKind.PULL).in_bulk(names, field_name="name")
    if unknown := [name for name in names if name not in found]:
        raise TokenRefused(
            f"consumers: {', '.join(unknown)}: no such pull consumer; create it with manage.py"
            " consumer NAME --pull."
        )
    return list(found.values())


def check_consumers(consumers: Collection[Consumer], partners: Collection[Partner]) -> None:
    """Raises TokenRefused if one takes messages of others than these partners, where there are
    any."""
    keys = {partner.pk for partner in partners}
    others = [one.name for one in consumers if keys and one.partner_id not in keys]
    if others:
        raise TokenRefused(
            f"consumers: {', '.join(others)}: takes messages of other partners too. Create a"
            " consumer for a partner of the token."
        )


def _partners(names: Sequence[str]) -> list[Partner]:
    found = Partner.objects.in_bulk(names, field_name="name")
    if unknown := [name for name in names if name not in found]:
        raise TokenRefused(f"partners: {', '.join(unknown)}: no such partner.")
    return list(found.values())


def machine_user(name: str, scopes: Sequence[str]) -> Any:
    """The user of this name that is no person, made if there is none, with the permissions that the
    scopes need. Raises TokenRefused for a person."""
    users = get_user_model().objects
    user = users.filter(username=name).first() or users.create_user(name)
    if not is_machine(user):
        raise TokenRefused(f"{name} is a user of the console: confirm with --user {name}.")
    needed = {codename for scope in scopes for codename in PERMISSIONS.get(scope, ())}
    permissions = Permission.objects.filter(content_type__app_label="msh", codename__in=needed)
    user.user_permissions.add(*permissions)
    return user


def revoke(name: str) -> None:
    deleted, _ = ApiToken.objects.filter(name=name).delete()
    if not deleted:
        raise TokenRefused(f"There is no token {name!r}. `manage.py token` lists them.")
