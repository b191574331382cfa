"""`manage.py skip-missing TPA_ID CONVERSATION --reason TEXT`: deliver past what lacks."""

from msh.flows.operations import conversation_actions
from msh.management.actions import ReceivingCommand


class Command(ReceivingCommand):
    action = conversation_actions.SKIP_MISSING
