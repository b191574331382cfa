"""Two operators, and a rule for every verb."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from msh import roles
from msh.flows.errors import SecondPersonNeeded
from msh.four_eyes.flows import requests
from msh.models import ActRequest
from msh.store.history import Actor

ANN, SUE = Actor("ann", "agreed by telephone"), Actor("sue", "seen it too")


def user(name: str, granted: frozenset[str] | set[str] = roles.SUPERVISOR) -> User:
    made = User.objects.create_user(name, is_staff=True)
    codenames = [one.partition(".")[2] for one in granted]
    made.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return made


@pytest.fixture
def rule(db: None, settings: Any) -> Any:
    """Everything needs a second person. Supervisors `ann` and `sue`, operator `otto`."""
    settings.MSH_SECOND_PERSON = ["all"]
    user("ann")
    user("sue")
    user("otto", roles.OPERATOR | {"msh.confirm_actrequest"})
    return settings


def ask(act: Callable[[], object]) -> ActRequest:
    with pytest.raises(SecondPersonNeeded) as needed:
        act()
    return requests.ask(needed.value)
