from msh.management.actions import COMMANDS

Command = COMMANDS["end-maintenance"]
