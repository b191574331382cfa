"""The actions of operators: each is declared once, has one dialog, and belongs to a role."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.core.management import get_commands, load_command_class

from msh import roles
from msh.admin.framework.actions import ActionDialog, ActionsAdmin
from msh.api.row_actions import API_ACTIONS, ApiAction, form_of
from msh.flows.operations import actions, conversation_actions, link_actions
from msh.flows.operations.operator_action import OperatorAction
from msh.four_eyes.flows import request_actions
from msh.management.actions import COMMANDS

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
    commands = [one.declared for one in COMMANDS.values()]
    offered = [declared.action for declared in API_ACTIONS]
    offered += [action for one in commands for action in (one.action, *one.by_direction.values())]

    assert {id(action) for action in offered} <= set(DECLARED)
    assert all(action.summary for action in offered)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_django_looks_and_takes_what_its_action_takes(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    assert type(command) is COMMANDS[name]
    taken = {one.dest: one for one in command.create_parser("msh", name)._actions}
    declared = COMMANDS[name].declared.action
    assert {one.name for one in declared.parameters} <= set(taken)
    for one in declared.parameters:
        assert taken[one.name].required == one.required
        assert one.help in str(taken[one.name].help)
    assert ("alone" in taken) == bool(declared.second_person)


@pytest.mark.parametrize("declared", API_ACTIONS, ids=lambda declared: declared.name)
def test_a_form_of_the_api_has_the_parameters_of_its_action(declared: ApiAction) -> None:
    fields = form_of("Form", declared.action)().fields
    expected = {"reason", *(one.name for one in declared.action.parameters)}
    assert set(fields) == expected | ({"alone"} if declared.action.second_person else set())
    for one in declared.action.parameters:
        assert fields[one.name].required == one.required


def test_a_plain_dialog_asks_for_the_number_that_its_action_takes() -> None:
    dialog: ActionDialog[Any] = ActionDialog(link_actions.SET_LAST_NUMBER_OUT, "start")
    assert set(dialog.form().fields) == {"reason", "version", "last"}
    assert not dialog.form({"reason": "x", "last": "0"}).is_valid()
    form = dialog.form({"reason": "x", "last": "1"})
    assert form.is_valid()
    assert form.action_fields == {"last": 1}
