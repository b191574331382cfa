from msh.flows.operations import change_link
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Set the retry counter of the message in flight to zero; its deadline stays."
    verb = staticmethod(change_link.reset_retries)
