from msh.management.actions import COMMANDS

Command = COMMANDS["extend-wait"]
