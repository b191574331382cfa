from msh.management.actions import COMMANDS

Command = COMMANDS["allow-reset"]
