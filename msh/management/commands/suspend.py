from msh.flows import operate
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Send nothing more to a partner until it is resumed."
    verb = staticmethod(operate.suspend)
    done = "suspended"
