"""The role to ask for if this user lacks a permission."""

from collections.abc import Iterable, Sequence

from django.http import HttpRequest

from msh.roles import role_with


def whom_to_ask(request: HttpRequest, permissions: Sequence[str], what: str) -> str:
    """A sentence for a user without `permissions`; empty if he has them. `what`: to do what."""
    if request.user.has_perms(permissions):
        return ""
    return _sentence(what, permissions)


def whom_to_ask_for(actions: Iterable[tuple[str, Sequence[str]]]) -> Sequence[str]:
    """A sentence for each role. `actions`: title and permissions of what this user may not do."""
    by_role: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for action in actions:
        by_role.setdefault(role_with(action[1]), []).append(action)
    return [
        _sentence(f"use {', '.join(title for title, _ in several)}", several[0][1])
        for several in by_role.values()
    ]


def _sentence(what: str, permissions: Sequence[str]) -> str:
    whom = (
        f"a user with the role {role}" if (role := role_with(permissions)) else "an administrator"
    )
    return f"You have no permission to {what}: ask {whom}."
