from msh.flows import operate
from msh.management.verbs import VerbCommand


class Command(VerbCommand):
    help = "Send the message in flight again at once; spends no retry."
    verb = staticmethod(operate.send_now)
