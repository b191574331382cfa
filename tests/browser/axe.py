"""What axe-core holds against a page: labels, landmarks, contrast."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

ALL_RULES: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS = ALL_RULES | {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
}


def violations(name: str, page: Page, rules: dict[str, Any] = ALL_RULES) -> list[str]:
    """What axe-core holds against the page as it is shown now: a line for each element."""
    response: dict[str, Any] = Axe().run(page, options=rules).response
    return [
        f"{name}: {violation['id']}: {' '.join(map(str, node['target']))} {node['html'][:200]}"
        f" {node['failureSummary']}"
        for violation in response["violations"]
        for node in violation["nodes"]
    ]
