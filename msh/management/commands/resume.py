from msh.flows.operations import link_actions
from msh.management.actions import LinkCommand


class Command(LinkCommand):
    action = link_actions.RESUME
    done = link_actions.RESUME.done
