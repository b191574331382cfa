"""Django's command line: `msh`, manage.py and `python -m msh.standalone` are one. `--data FOLDER`
(or MSH_DATA) names the MSH that a command is for."""

import gc
import os
import sys

from django.core.management import execute_from_command_line

from msh.standalone import datafolder

# They need none of the apps of the console, the API and beat, which take longer to load than they
# run. What loads an application's consumers, or looks after all tables, is not here.
WITHOUT_CONSOLE = {
    *("links", "messages", "trace", "deliveries", "link-status", "resynchronise"),
    *("suspend", "resume", "reset-retries", "send-now", "reset-sequence", "cancel", "send"),
    *("allow-reset", "expect", "set-last-number", "start-order", "restart-conversation"),
    *("skip-missing", "drop-held", "extend-wait"),
    "take-back-refusal",
    *("ping", "status", "jobs", "maintenance"),
    *("plan-maintenance", "end-maintenance", "cancel-queue", "replay", "cancel-job"),
}


def main() -> None:
    gc.set_threshold(50_000)  # modules are no garbage: looking for some takes a tenth of the time
    try:
        datafolder.load_from_arguments(sys.argv[1:])
    except datafolder.NotRunning as error:
        sys.exit(str(error))
    default = os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings") == "msh.settings"
    if default and WITHOUT_CONSOLE.intersection(sys.argv[1:2]):
        os.environ["DJANGO_SETTINGS_MODULE"] = "msh.management.settings"
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
