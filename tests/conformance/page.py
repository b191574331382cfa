"""`docs/spec/requirements.md` and `docs/spec/ebms2.md`, written from the JSON beside this file.

python -m tests.conformance.page --write
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_HERE = Path(__file__)
_SPEC = _HERE.resolve().parents[2] / "docs/spec"
PAGE = _SPEC / "requirements.md"
EBMS2_PAGE = _SPEC / "ebms2.md"

_SOURCES = {
    "000": "000: the reliable messaging draft",
    "001": "001: store-and-forward (OSB)",
    "002": "002: document history (webMethods)",
    "003": "003: queued transactions (Mercury)",
    "004": "004: id map (SAP XI)",
}
_HEAD = """\
# Requirements

The 168 requirements, restated from the five [sources](README.md#sources), each with a test that
can be observed from outside. Tests name the requirement they prove
(`@pytest.mark.requirement("000-021")`); `make conformance` prints which tests prove which
requirement. Where a source contradicts another one, [decisions.md](decisions.md) decides; where
it differs from this page, it takes precedence.

This page is generated from `tests/conformance/requirements.json`: edit that file, then run
`python -m tests.conformance.page --write`.

In the tests, **A** is our sending MSH, **B** our receiving MSH, **P** a scripted peer that shares
no code with them, **W** a fault proxy between them, **app** the receiving application. In the
column *source*, SHALL and MAY are the words of the source; prose is a normative section without
such a word; P2 is phase 2 or 3 (section 4); NN is not normative (section 5); ED is an editor's
note; EX is an example or the DTD.
"""

_EBMS2_HEAD = """\
# Requirements of OASIS ebMS 2.0

What a second dialect, the OASIS ebXML Message Service 2.0, has to do. Tests name the requirement
they prove (`@pytest.mark.requirement("EB-016")`), as for the [168 of the draft](requirements.md).
[docs/ebms2.md](../ebms2.md) says how much of it is there.

This page is generated from `tests/conformance/ebms2.json`: edit that file, then run
`python -m tests.conformance.page --write`.

The text of the specification was not at hand. In the column *source*, X is its schema
`msg-header-2_0.xsd` 2.0c; S is a section of the specification, restated from knowledge; H, C, M are
the products Hermes 2, ebms-core and webMethods; L is the Digikoppeling profile; N is NHS Spine; V
is NAV and its partners; W was seen in a message; O is our own decision. The number behind it is the
milestone: 1 plain reliable, 2 signed, 3 ordered, 4 import of CPAs, 5 interoperation.

In the tests, **P** is a scripted peer that shares no code with us, **A** our Sender, **B** our
Receiver, **K** messages of other products, which are not in this repository. An *agreement* is our
row for one CPAId and one pair of parties; a *signal* is a message whose Service is
`urn:oasis:names:tc:ebxml-msg:service`; an *answer* is the entity of an HTTP response; a *flight* is
one reliable message on its way.
"""


def page(requirements: Mapping[str, Mapping[str, str]]) -> str:
    """The page as Markdown."""
    sections = (_section(source, title, requirements) for source, title in _SOURCES.items())
    return "\n".join((_HEAD, *sections))


def ebms2_page(requirements: Mapping[str, Mapping[str, str]]) -> str:
    """The page of OASIS ebMS 2.0 as Markdown."""
    titles = dict.fromkeys(requirement["section"] for requirement in requirements.values())
    sections = (
        _table(
            f"## {title}",
            (_row(each, row) for each, row in requirements.items() if row["section"] == title),
        )
        for title in titles
    )
    return "\n".join((_EBMS2_HEAD, *sections))


def read_requirements(name: str = "requirements") -> dict[str, dict[str, str]]:
    """Number → ref, text, test."""
    file = _HERE.with_name(f"{name}.json")
    requirements: dict[str, dict[str, str]] = json.loads(file.read_text())
    return requirements


def _section(source: str, title: str, requirements: Mapping[str, Mapping[str, str]]) -> str:
    numbers = (number for number in requirements if number.startswith(f"{source}-"))
    rows = (_row(number, requirements[number]) for number in numbers)
    return _table(f"## {title}", rows)


def _table(title: str, rows: Iterable[str]) -> str:
    head = ("| number | source | requirement | observable test |", "|---|---|---|---|")
    return "\n".join((title, "", *head, *rows, ""))


def _row(number: str, requirement: Mapping[str, str]) -> str:
    cells = (requirement[name].replace("|", "\\|") for name in ("ref", "text", "test"))
    return f'| <a id="{number}"></a>{" | ".join((number, *cells))} |'


if __name__ == "__main__":
    pages = {PAGE: page(read_requirements()), EBMS2_PAGE: ebms2_page(read_requirements("ebms2"))}
    for path, text in pages.items():
        if "--write" in sys.argv[1:]:
            path.write_text(text)
        else:
            sys.stdout.write(text)
