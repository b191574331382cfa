from msh.flows.operations import actions
from msh.management.actions import LinkCommand


class Command(LinkCommand):
    action = actions.SUSPEND
    done = actions.SUSPEND.done
