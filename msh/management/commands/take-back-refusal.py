from msh.management.actions import COMMANDS

Command = COMMANDS["take-back-refusal"]
