from msh.flows.operations import change_link
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Send the message in flight again at once; spends no retry."
    verb = staticmethod(change_link.send_now)
