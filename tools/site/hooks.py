"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml).

Generated pages are made here at every build and are not committed, so they cannot be out of date.
"""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path

from markdown import Extension, Markdown  # noqa: E402
from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402

from tools.site import offline, sources, states  # noqa: E402


class ListsAsOnGitHub(Extension):
    """Nested lists are indented by two or three spaces in the repository, not by four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  Markdown's own name
        md.tab_length = 2


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(ListsAsOnGitHub())  # type: ignore[arg-type]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    from tools.site import reference  # noqa: PLC0415  sets up Django

    pages = {
        site: (ROOT / path).read_text(encoding="utf-8")
        for path, site in sources.outside_docs().items()
    }
    pages |= {"decisions/index.md": sources.decisions_page(), **reference.pages()}
    for name in ("site.css", "iframe-worker.js"):
        pages[name] = (ROOT / "tools/site" / name).read_text(encoding="utf-8")
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    kept_elsewhere = {site: path for path, site in sources.outside_docs().items()}
    path = kept_elsewhere.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if (ROOT / path).is_file():  # not generated
        text = sources.in_site(text, path)
    return states.as_tables(text)


_RAW_LIST = re.compile(r"<p>[^<]*\n(?:- |\d+\. |\| )[^<]*")


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A list or table that became text: it needs an empty line before it."""
    if found := _RAW_LIST.search(html):
        raise PluginError(f"{page.file.src_uri}: not shown as a list: {found[0][:200]}")
    return html


def on_post_build(*, config: MkDocsConfig, **_: Any) -> None:
    if loaded := offline.loaded_from_elsewhere(Path(config.site_dir)):
        raise PluginError("pages load from other hosts:\n" + "\n".join(loaded))
