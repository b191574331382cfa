"""The actions that an advice names: a page offers them."""

from msh.flows.operations import actions, conversation_actions, link_actions
from msh.flows.operations.operator_action import OperatorAction

from .ways import WAYS, names_of_acts

_TABLES = {
    "actions": actions,
    "conversation_actions": conversation_actions,
    "link_actions": link_actions,
}


def _declared(name: str) -> OperatorAction:
    table, _, of_table = name.partition(".")
    action: OperatorAction = getattr(_TABLES[table], of_table)
    return action


_BY_NAME = {way.action: _declared(way.action) for ways in WAYS.values() for way in ways}


def acts_of(text: str) -> tuple[OperatorAction, ...]:
    """The actions that it names, each once."""
    return tuple(_BY_NAME[name] for name in names_of_acts(text))
