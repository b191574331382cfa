"""A browser that is missing is one line that names the cure, never a skipped test."""

import pytest

from tests.browser.console import BrowserMissing, chromium


def test_a_missing_browser_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")

    with pytest.raises(BrowserMissing, match="apt-get install chromium libatomic1, or name"):
        chromium()


def test_another_browser_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/bin/sh")

    assert chromium() == "/bin/sh"
