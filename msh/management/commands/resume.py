from msh.flows import operate
from msh.management.cli import VerbCommand


class Command(VerbCommand):
    help = "Resolve and resume: retry counter to zero, the uncompleted message first."
    verb = staticmethod(operate.resume)
    done = "resumed, the same bytes are sent again"
