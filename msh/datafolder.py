"""The folder of one MSH that `manage.py up` runs: its settings, servers, logs and process ids.

Standard library only: `manage.py` loads the settings from here before Django reads them.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

SETTINGS_FILE = "env.json"


def load_from_arguments(arguments: Sequence[str]) -> None:
    """Put into the environment the settings of the folder named by `--data` or MSH_DATA.

    What the environment already says wins. No folder named, or nothing in it yet: no change.
    """
    folder = _named_folder(arguments) or os.environ.get("MSH_DATA", "")
    if not folder:
        return
    os.environ["MSH_DATA"] = folder
    for name, value in read_settings(Path(folder)).items():
        os.environ.setdefault(name, value)


def read_settings(folder: Path) -> dict[str, str]:
    """The settings kept in `folder`: name of the environment variable → its value."""
    try:
        text = (folder / SETTINGS_FILE).read_text()
    except FileNotFoundError:
        return {}
    settings: dict[str, str] = json.loads(text)
    return settings


def write_settings(folder: Path, settings: dict[str, str]) -> None:
    """Keep `settings` in `folder`, readable by its owner only: they hold keys and passwords."""
    new = folder / f"{SETTINGS_FILE}.new"
    new.touch(mode=0o600)
    new.write_text(json.dumps(settings, indent=2) + "\n")
    new.replace(folder / SETTINGS_FILE)


def _named_folder(arguments: Sequence[str]) -> str:
    for position, argument in enumerate(arguments):
        if argument.startswith("--data="):
            return argument.removeprefix("--data=")
        if argument == "--data" and position + 1 < len(arguments):
            return arguments[position + 1]
    return ""
