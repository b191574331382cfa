from msh.flows import operate
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Set the retry counter of the message in flight to zero; its deadline stays."
    verb = staticmethod(operate.reset_retries)
