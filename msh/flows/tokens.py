"""Tokens of the REST API: made and revoked."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from msh.models import ApiToken


class TokenRefused(ValueError):
    """`str()` names each field that is wrong, and the cure. Nothing was changed."""


def make(name: str, scopes: Sequence[str], user: Any = None) -> tuple[ApiToken, str]:
    """A new token with its secret, which cannot be read again.

    Without a user one of the token's name is made: without a password, and without permissions.
    Raises TokenRefused.
    """
    with transaction.atomic():
        if user is None:
            users = get_user_model().objects
            user = users.filter(username=name).first() or users.create_user(name)
            if user.is_staff or user.is_superuser:
                raise TokenRefused(f"{name} is a user of the console: say so by --user {name}.")
        token = ApiToken(name=name, scopes=list(dict.fromkeys(scopes)), user=user)
        secret = token.generate()
        try:
            token.full_clean()
        except ValidationError as problem:
            texts = problem.message_dict.items()
            raise TokenRefused(
                "; ".join(f"{field}: {' '.join(messages)}" for field, messages in texts)
            ) from None
        token.save()
    return token, secret


def revoke(name: str) -> None:
    """The token is unknown from now on. Raises TokenRefused if there is none."""
    deleted, _ = ApiToken.objects.filter(name=name).delete()
    if not deleted:
        raise TokenRefused(f"There is no token {name!r}: manage.py token lists them.")
