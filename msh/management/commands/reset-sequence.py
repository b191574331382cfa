from msh.flows.operations import resynchronise
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Start the numbers to a partner again at 1. Only when nothing is in flight or in doubt."
    verb = staticmethod(resynchronise.reset_sequence)
