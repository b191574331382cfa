"""Makes the console's screenshots small enough for the documentation: `make pictures`.

The tests of `tests/browser` write them into docs/images. Those that no page shows are removed; the
others get a palette of 256 colours. A picture of more than LIMIT bytes is an error.
"""

import re
import sys
from pathlib import Path

from PIL import Image

LIMIT = 150_000
MOST = 8
ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"


def shown() -> set[str]:
    """Names of the pictures in docs/images that a page shows."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text() for page in pages)
    return set(re.findall(r"!\[[^]]*]\([\w./]*images/([\w-]+\.png)\)", text))


def compress(picture: Path) -> None:
    with Image.open(picture) as image:
        if image.mode != "P":
            colours = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            colours.save(picture, optimize=True)


def problems() -> list[str]:
    """What is wrong with the pictures of the console, as sentences."""
    pictures = sorted(IMAGES.glob("console-*.png"))
    wrong = [
        f"{one.name} has {one.stat().st_size} bytes, at most {LIMIT} are allowed"
        for one in pictures
        if one.stat().st_size > LIMIT
    ]
    if len(pictures) > MOST:
        wrong.append(f"docs/images has {len(pictures)} pictures of the console, at most {MOST}")
    return wrong + [f"no page shows {one.name}" for one in pictures if one.name not in shown()]


def main() -> None:
    for picture in IMAGES.glob("console-*.png"):
        if picture.name in shown():
            compress(picture)
        else:
            picture.unlink()
    sys.exit("\n".join(problems()) or None)


if __name__ == "__main__":
    main()
