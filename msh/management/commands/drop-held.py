"""`manage.py drop-held TPA_ID CONVERSATION --reason TEXT`: give up what is held."""

from msh.flows.operations import conversation_actions
from msh.management.actions import ReceivingCommand


class Command(ReceivingCommand):
    action = conversation_actions.DROP_HELD
