"""docker/.env.example from docs/settings.md:   python -m tools.settings_example"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs" / "settings.md"
TARGET = ROOT / "docker" / ".env.example"

HEAD = """\
# The settings of MSH. `docker compose` and systemd read such a file; docker/README.md says how to
# fill it. Written by `python -m tools.settings_example` from docs/settings.md.
"""
OF_COMPOSE = """
# --- of docker/compose.yml alone ------------------------------------------------------------------

# The name of this MSH on the Internet, and a folder with its tls.crt and tls.key.
MSH_HOST=msh.example.com
TLS_FOLDER=./tls

# Of the database that compose.yml starts; letters and digits.
POSTGRES_PASSWORD=

# Of the Valkey that compose.yml starts; letters and digits.
VALKEY_PASSWORD=

# The first password of the operator `admin`. Empty: none is created.
DJANGO_SUPERUSER_PASSWORD=

# --- of MSH ---------------------------------------------------------------------------------------
"""
BY_COMPOSE = {"DATABASE_URL", "REDIS_URL", "MSH_TRUSTED_PROXIES"}
GIVEN = {
    "MSH_URI": "https://msh.example.com/ebxml/",
    "MSH_CONSOLE_URL": "https://msh.example.com/admin/",
}
FILLED = {"SECRET_KEY", "MSH_FERNET_KEYS"} | GIVEN.keys()


@dataclass(frozen=True, slots=True)
class Setting:
    names: tuple[str, ...]
    meaning: str
    default: str


def settings() -> list[Setting]:
    rows = re.findall(r"^\| (`[^|]*) \| (.*) \| ([^|]*) \|$", SOURCE.read_text(), re.MULTILINE)
    return [
        Setting(tuple(re.findall(r"`([A-Z_]+)`", names)), _plain(meaning), default)
        for names, meaning, default in rows
    ]


def composed() -> str:
    return HEAD + OF_COMPOSE + "".join(_paragraph(setting) for setting in settings())


def _paragraph(setting: Setting) -> str:
    said = f"{setting.meaning[0].upper()}{setting.meaning[1:]}. Default: {_plain(setting.default)}."
    if BY_COMPOSE.intersection(setting.names):
        said += " Set by compose.yml."
    comment = textwrap.fill(said, 100, initial_indent="# ", subsequent_indent="# ")
    defaults = [part.strip() for part in setting.default.split(", ")]
    lines = [
        f"{'' if name in FILLED else '#'}{name}={GIVEN.get(name) or _value(defaults, position)}"
        for position, name in enumerate(setting.names)
    ]
    return "\n".join(["", comment, *lines, ""])


def _value(defaults: list[str], position: int) -> str:
    """Empty where the default is a sentence."""
    default = defaults[min(position, len(defaults) - 1)].strip("`")
    return default if re.fullmatch(r"\d+|[a-z]+://\S*|\d+/second|INFO", default) else ""


def _plain(markdown: str) -> str:
    without_links = re.sub(r"\[([^]]*)\]\(([^)]*)\)", r"\1: docs/\2", markdown)
    return without_links.replace("`", "")


if __name__ == "__main__":
    TARGET.write_text(composed())
