from msh.flows.operations import change_link
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Send nothing more to a partner until it is resumed."
    verb = staticmethod(change_link.suspend)
    done = "suspended"
