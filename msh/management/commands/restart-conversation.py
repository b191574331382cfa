from msh.management.actions import COMMANDS

Command = COMMANDS["restart-conversation"]
