"""The pages of the reference, from the code itself: commands, API, metrics, codes and causes,
tables."""

import json
import os
from collections.abc import Callable

_ENOUGH = {
    "SECRET_KEY": "only for the documentation",
    "MSH_URI": "https://msh.example/ebxml/",
    "DJANGO_SETTINGS_MODULE": "msh.settings",
}
"""Nothing is connected to: these are what the settings need to be read."""


def pages() -> dict[str, str]:
    """Page of the site → its content."""
    for name, value in _ENOUGH.items():
        os.environ.setdefault(name, value)
    import django  # noqa: PLC0415  after its settings

    django.setup()
    from tools.site import api, codes, commands, metrics, tables  # noqa: PLC0415  need Django

    schema = api.schema()
    made: dict[str, Callable[[], str]] = {
        "reference/commands.md": commands.page,
        "reference/api.md": lambda: api.page(schema),
        "reference/metrics.md": metrics.page,
        "reference/codes.md": codes.page,
        "reference/tables.md": tables.page,
        "reference/openapi.json": lambda: json.dumps(schema, indent=1, default=str),
    }
    return {path: make() for path, make in made.items()}
