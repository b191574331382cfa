"""What pages of the site would load from another host when they are read."""

import re
from pathlib import Path

_LOADING = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"?(?:https?:)?//[^\s\">]+"
    r"|<link\b(?![^>]*\brel=\"?(?:canonical|next|prev|alternate))[^>]*\bhref=\"?(?:https?:)?//[^\s\">]+"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//[^\"')]+"
    r"|url\([\"']?(?:https?:)?//[^\"')]+",
    re.IGNORECASE,
)


def loaded_from_elsewhere(site: Path) -> list[str]:
    return [
        f"{file.relative_to(site)}: {found[0]}"
        for file in sorted(site.rglob("*"))
        if file.suffix in {".html", ".css"}
        for found in _LOADING.finditer(file.read_text(encoding="utf-8"))
    ]
