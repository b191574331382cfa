from msh.flows import operate
from msh.management.cli import VerbCommand


class Command(VerbCommand):
    help = "Resolve and resume: retry counter to zero, the uncompleted message first."
    verb = staticmethod(operate.resume)
    done = "resumed: what is in flight goes again, the same bytes, then the queue"
