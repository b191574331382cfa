"""Writes the font of the console's icons: those of unfold's font that `icons.txt` names.

Needs fonttools and brotli, which nothing else needs: run it in an environment of its own, as
`python tools/icons.py FONT.woff2 msh/static/msh`, FONT being unfold's Material-Symbols-Outlined.
Add a name to `icons.txt` first.
"""

import sys
from importlib import import_module
from pathlib import Path


def main(font: str, folder: str) -> None:
    subset = import_module("fontTools.subset")
    where = Path(folder)
    names = (where / "icons.txt").read_text().split()
    options = subset.Options()
    options.flavor = "woff2"
    options.layout_features = ["liga", "rlig"]
    options.layout_closure = False
    options.glyph_names = True
    full = subset.load_font(font, options)
    glyphs = set(full.getGlyphOrder())
    if missing := [name for name in names if name not in glyphs]:
        sys.exit(f"not in the font: {', '.join(missing)}")
    chosen = subset.Subsetter(options)
    chosen.populate(glyphs=names, text="abcdefghijklmnopqrstuvwxyz0123456789_ ")
    chosen.subset(full)
    subset.save_font(full, str(where / "icons.woff2"), options)


if __name__ == "__main__":
    main(*sys.argv[1:])
