from msh.flows.operations import actions
from msh.management.actions import LinkCommand


class Command(LinkCommand):
    action = actions.RESET_SEQUENCE
