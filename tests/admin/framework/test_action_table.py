"""The actions of operators: each is declared once, has one dialog, and belongs to a role."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission

from msh import roles
from msh.admin.framework.actions import ActionsAdmin
from msh.api.links import LINK_ACTIONS
from msh.flows.operations import actions, conversation_actions, link_actions
from msh.flows.operations.four_eyes import request_actions
from msh.flows.operations.operator_action import OperatorAction

SINGLE = [
    (constant, value)
    for module in (actions, conversation_actions, link_actions, request_actions)
    for constant, value in vars(module).items()
    if isinstance(value, OperatorAction)
]
DECLARED = {id(action): action for action in (*dict(SINGLE).values(), *actions.DECISIONS)}
PAGES = [page for page in admin.site._registry.values() if isinstance(page, ActionsAdmin)]


def test_constant_name_and_title_of_an_action_are_alike() -> None:
    unlike = [c for c, action in SINGLE if not c.lower().startswith(action.name)]
    assert unlike == []
    for action in DECLARED.values():
        title = action.title.lower()
        assert all(word in title for word in action.name.split("_")), (action.name, title)


def test_each_action_has_one_dialog() -> None:
    shown = [dialog.action for page in PAGES for dialog in page.operator_actions]

    assert {id(action) for action in shown} == set(DECLARED)
    assert len(shown) == len(DECLARED)


@pytest.mark.django_db
def test_each_permission_of_an_action_exists_and_belongs_to_a_role() -> None:
    named = {name for action in DECLARED.values() for name in action.permissions}
    pairs = Permission.objects.values_list("content_type__app_label", "codename")

    assert named <= {f"{label}.{codename}" for label, codename in pairs}
    assert named <= roles.SUPERVISOR


def test_actions_of_the_api_and_the_commands_say_what_they_do() -> None:
    offered = [view.action for view in LINK_ACTIONS.values()]

    assert {id(action) for action in offered} <= set(DECLARED)
    assert all(action.summary for action in offered)
