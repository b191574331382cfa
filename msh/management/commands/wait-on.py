"""`manage.py wait-on TPA_ID CONVERSATION --reason TEXT`: wait for what lacks."""

from msh.flows.operations import conversation_actions
from msh.management.actions import ReceivingCommand


class Command(ReceivingCommand):
    action = conversation_actions.WAIT_ON
