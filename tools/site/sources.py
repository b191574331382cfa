"""Pages of the site that are kept elsewhere in the repository, and links between all of them."""

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUNBOOKS = ROOT / "msh" / "runbooks"
SINGLE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "docker/README.md": "docker.md",
    "msh/api/problems.md": "problems.md",
}
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def outside_docs() -> dict[str, str]:
    """Path in the repository → page of the site."""
    runbooks = {f"msh/runbooks/{file.name}": f"runbooks/{file.name}" for file in _runbooks()}
    return SINGLE | runbooks


def _runbooks() -> list[Path]:
    return sorted(RUNBOOKS.glob("*.md"))


def in_site(text: str, page: str) -> str:
    """The markdown of `page`, a path in the repository, with links that lead within the site.

    What exists in the repository and is no page of the site is named without a link.
    """
    here = PurePosixPath(page).parent
    site_here = str(PurePosixPath(_site_page(page) or page).parent)

    def replace(found: re.Match[str]) -> str:
        path = os.path.normpath(here / found["path"])
        target = _site_page(path)
        if target is None:
            # What does not exist is left for mkdocs to report.
            return f"`{path}`" if (ROOT / path).exists() else found[0]
        link = os.path.relpath(target, site_here)
        return f"{found['image']}[{found['text']}]({link}{found['anchor'] or ''})"

    return _LINK.sub(replace, text)


def _site_page(path: str) -> str | None:
    if path == "docs/decisions":
        return "decisions/index.md"
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return outside_docs().get(path)


def decisions_page() -> str:
    """The list of design decisions, newest first."""
    rows = []
    for file in sorted(DOCS.glob("decisions/*.md"), reverse=True):
        title = _TITLE.search(file.read_text(encoding="utf-8"))
        rows.append(f"| {file.name[:10]} | [{title[1] if title else file.stem}]({file.name}) |")
    return "\n".join(
        [
            "# Design decisions",
            "",
            "Half a page each: what was decided, why, and what was considered instead.",
            "",
            "| date | decision |",
            "|---|---|",
            *rows,
            "",
        ]
    )
