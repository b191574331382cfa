from msh.management.actions import COMMANDS

Command = COMMANDS["reset-retries"]
