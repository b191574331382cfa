"""What a browser is told, and by which settings: each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from msh.web.security import CONSOLE_POLICY, POLICY

ROOT = Path(__file__).resolve().parents[1]


def setting(name: str, **environment: str) -> str:
    code = f"from msh import settings; print(settings.{name})"
    names = ("ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS")
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("MSH_") and key not in names
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environment,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.parametrize(
    ("uri", "console", "is_secure"),
    [
        ("https://msh.example/ebxml/", "", "True"),
        ("http://msh.example/ebxml/", "", "False"),
        ("mailto:msh@example.net", "https://console.example/admin/", "True"),
        ("http://10.0.0.1/ebxml/", "https://console.example/admin/", "True"),
        ("https://msh.example/ebxml/", "http://10.0.0.1/admin/", "False"),
        ("mailto:msh@example.net", "", "False"),
    ],
)
def test_cookies_are_secure_where_the_console_is(uri: str, console: str, is_secure: str) -> None:
    given = {"MSH_URI": uri} | ({"MSH_CONSOLE_URL": console} if console else {})
    assert setting("SESSION_COOKIE_SECURE", **given) == is_secure


def test_the_console_is_a_host_and_an_origin_of_ours() -> None:
    given = {"MSH_URI": "http://msh/ebxml/", "MSH_CONSOLE_URL": "https://console.example/admin/"}
    assert "console.example" in setting("ALLOWED_HOSTS", **given)
    assert setting("CSRF_TRUSTED_ORIGINS", **given) == "['https://console.example']"


@pytest.mark.django_db
def test_tls_is_asked_for_from_then_on_of_who_came_by_it() -> None:
    secure = Client().get("/admin/login/", secure=True)
    assert secure.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in Client().get("/admin/login/").headers


@pytest.mark.django_db
def test_pages_run_no_script_of_anybody_else() -> None:
    assert Client().get("/admin/login/").headers["Content-Security-Policy"] == CONSOLE_POLICY
    answer = Client().get("/api/docs")
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert b"<script>" not in answer.content
    assert "unsafe" not in POLICY.partition("script-src")[2].partition(";")[0]
    assert "unsafe-inline" not in CONSOLE_POLICY.partition("script-src")[2].partition(";")[0]
