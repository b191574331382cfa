from msh.management.actions import COMMANDS

Command = COMMANDS["drop-held"]
