from msh.management.actions import COMMANDS

Command = COMMANDS["skip-missing"]
