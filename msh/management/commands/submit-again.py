from msh.management.actions import COMMANDS

Command = COMMANDS["submit-again"]
