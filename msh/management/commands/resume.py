from msh.flows.operations import change_link
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Resolve and resume: retry counter to zero, the uncompleted message first."
    verb = staticmethod(change_link.resume)
    done = "resumed"
