from msh.management.actions import COMMANDS

Command = COMMANDS["set-last-number"]
