"""`manage.py extend-wait TPA_ID CONVERSATION --reason TEXT`: wait for what lacks."""

from msh.flows.operations import conversation_actions
from msh.management.actions import ReceivingCommand


class Command(ReceivingCommand):
    action = conversation_actions.EXTEND_WAIT
