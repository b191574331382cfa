"""The console in a real browser, and the people who use it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.urls import reverse
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    Response,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.exchange.machine import Machine

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WAITS = 60_000  # milliseconds: the machine may be busy with other things
DESK: ViewportSize = {"width": 1280, "height": 900}
TELEPHONE: ViewportSize = {"width": 390, "height": 844}
expect.set_options(timeout=WAITS)

# Refused by the browser itself: a Playwright route would do without its cache, and be slow.
ONLY_THIS_MACHINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

NO_BROWSER = (
    "tests/browser needs Debian's chromium, which is not there:"
    " apt-get install chromium libatomic1, or name another one by CHROMIUM=/path/to/chromium"
)


class BrowserMissing(Exception):
    """`str()` names the cure on one line."""


def chromium() -> str:
    """Path of the browser that the machine has. Raises BrowserMissing."""
    found = shutil.which(os.environ.get("CHROMIUM") or "chromium")
    if found is None:
        raise BrowserMissing(NO_BROWSER)
    return found


@contextmanager
def running_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-dev-shm-usage", ONLY_THIS_MACHINE],
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Console:
    """Opens pages as somebody. Whatever a page asks of another host is refused and noted."""

    msh: Machine
    browser: Browser
    outside: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Requests without an answer, or refused: why a script was missing, if one was."""
    _contexts: list[Any] = field(default_factory=list)

    def open(self, role: str, where: str = "", **options: Any) -> Page:
        """A page of a user with this role; `where` is an address below the console's."""
        options = {"viewport": DESK, "reduced_motion": "reduce"} | options
        context = self.browser.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(WAITS)
        context.on("request", self._note_if_outside)
        context.on("requestfailed", lambda one: self.failed.append(f"{one.url}: {one.failure}"))
        context.on("response", self._note_if_refused)
        context.add_cookies(
            [
                {
                    "name": settings.SESSION_COOKIE_NAME,
                    "value": session_of(user_with(role)),
                    "url": self.msh.console,
                }
            ]
        )
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note_if_forbidden)
        page.goto(self.msh.console + where)
        return page

    def at(self, name: str, *args: Any) -> str:
        """The address of an admin page by its name, such as "msh_outboundlink_change"."""
        return (
            urlsplit(self.msh.console)._replace(path=reverse(f"admin:{name}", args=args)).geturl()
        )

    def picture(self, page: Page, name: str, *, whole: bool = False) -> None:
        """Keep what the page looks like, where a folder for that is named: MSH_PICTURES. `whole`:
        also what is below the window."""
        if folder := os.environ.get("MSH_PICTURES"):
            path = Path(folder) / f"{name}.png"
            page.screenshot(path=path, animations="disabled", full_page=whole)

    def picture_of_telephone(self, page: Page, name: str) -> None:
        """In the dark, where pictures are kept."""
        if os.environ.get("MSH_PICTURES"):
            page.set_viewport_size(TELEPHONE)
            show_in("dark", page)
            self.picture(page, name)
            show_in("light", page)
            page.set_viewport_size(DESK)

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _note_if_refused(self, response: Response) -> None:
        if response.status >= 400:
            self.failed.append(f"{response.url}: {response.status} {response.status_text}")

    def _note_if_forbidden(self, message: ConsoleMessage) -> None:
        """What our own Content-Security-Policy keeps our own pages from."""
        if "Content Security Policy" in message.text:
            self.problems.append(message.text)

    def _note_if_outside(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.msh.console).netloc:
            self.outside.append(request.url)


def show_in(scheme: Scheme, page: Page) -> None:
    """As a page loaded in this scheme looks, without loading it again."""
    page.emulate_media(color_scheme=scheme)
    page.evaluate(_SHOW, scheme)


_SHOW = """scheme => {
    document.documentElement.classList.toggle("dark", scheme === "dark");
    for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish();
}"""


def user_with(role: str) -> User:
    """The one member of staff who has this role, and no other."""
    user, made = User.objects.get_or_create(username=role.lower(), defaults={"is_staff": True})
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        user.groups.set([Group.objects.get(name=role)])
    return user


def session_of(user: User) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)
