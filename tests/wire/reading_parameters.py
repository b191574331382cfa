"""A reader of Content-Disposition that shares no code with ours (RFC 6266)."""

import re
from urllib.parse import unquote


def file_name_of(disposition: str) -> str:
    extended = re.search(r"filename\*=UTF-8''([^;\s]+)", disposition)
    if extended:
        return unquote(extended[1])
    plain = re.search(r'filename="([^"]*)"', disposition)
    return plain[1] if plain else ""
