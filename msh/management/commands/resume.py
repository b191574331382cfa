from msh.management.actions import COMMANDS

Command = COMMANDS["resume"]
