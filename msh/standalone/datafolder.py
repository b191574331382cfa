"""The folder of one MSH that `manage.py up` runs: settings, servers, logs and process ids.

    settings.json  what lasts: its identity and its keys      admin.password  the console's log-in
    servers.json   DATABASE_URL and REDIS_URL while it runs   run/NAME.pid    its processes
    postgresql/    its database, if embedded                  log/NAME.log    what they say

Standard library only: the command line loads the settings from here before Django reads them.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

SETTINGS = "settings.json"
SERVERS = "servers.json"
OF_UP = "msh-data"
"""Where `up` keeps everything if nothing names a folder, in the current one."""


class NotRunning(Exception):
    """A command was sent to an MSH that has no servers now: one line, with the cure."""


def load_from_arguments(arguments: Sequence[str]) -> None:
    """Put into the environment what the folder named by `--data` or MSH_DATA says.

    What `--data` names wins over the environment, which wins over MSH_DATA. `up` gets only what
    lasts, for it starts the servers, and uses those that the environment names. Raises NotRunning.
    """
    chosen = _named_folder(arguments)
    starts = "up" in arguments[:1]
    named = chosen or os.environ.get("MSH_DATA", "") or (OF_UP if starts else "")
    if not named:
        return
    folder = Path(named).resolve()
    os.environ["MSH_DATA"] = str(folder)
    settings = read(folder, SETTINGS)
    if not starts:
        settings |= read(folder, SERVERS)
        if "DATABASE_URL" not in os.environ | settings:
            raise NotRunning(f"No MSH runs in {named}: start it with manage.py up --data {named}")
    os.environ |= settings if chosen and not starts else settings | os.environ


def read(folder: Path, file: str) -> dict[str, str]:
    """Names of environment variables and their values. Empty if the file is not there."""
    try:
        text = (folder / file).read_text()
    except FileNotFoundError:
        return {}
    settings: dict[str, str] = json.loads(text)
    return settings


def write(folder: Path, file: str, settings: dict[str, str]) -> None:
    write_secret(folder / file, json.dumps(settings, indent=2) + "\n")


def write_secret(path: Path, text: str) -> None:
    """Replace the file in one step; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(path)


def _named_folder(arguments: Sequence[str]) -> str:
    """The last one counts, as it does for argparse."""
    named = ""
    for position, argument in enumerate(arguments):
        if argument.startswith("--data="):
            named = argument.removeprefix("--data=")
        if argument == "--data" and position + 1 < len(arguments):
            named = arguments[position + 1]
    return named
