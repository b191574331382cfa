from msh.flows import operate
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Resolve and resume: retry counter to zero, the uncompleted message first."
    verb = staticmethod(operate.resume)
    done = "resumed"
