from msh.management.actions import COMMANDS

Command = COMMANDS["send-now"]
