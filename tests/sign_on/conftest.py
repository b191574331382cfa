"""An MSH with single sign-on. Its apps and tables are there for these tests only."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection
from django.test import override_settings

from msh import sign_on_settings
from tests.sign_on.provider import CLIENT, SECRET, Provider


@pytest.fixture(scope="session")
def running() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@contextmanager
def _apps(names: list[str]) -> Iterator[None]:
    """Beside those that are installed. Django's own way begins all of them anew, and then the
    console has lost its pages."""
    configs = {config.label: config for config in map(AppConfig.create, names)}
    for config in configs.values():
        config.apps, config.models = apps, apps.all_models[config.label]
    apps.app_configs.update(configs)
    try:
        for config in configs.values():
            config.import_models()
        apps.clear_cache()
        for config in configs.values():
            config.ready()
        yield
    finally:
        for label in configs:
            del apps.app_configs[label]
        apps.clear_cache()


@pytest.fixture(scope="module")
def _installed(running: Provider) -> Iterator[None]:
    with (
        override_settings(
            MSH_OIDC_ISSUER=running.issuer,
            MSH_OIDC_ROLES={"msh-operators": "Operator", "msh-viewers": "Viewer"},
            MSH_CONSOLE_URL="http://testserver/admin/",
            MIDDLEWARE=[*settings.MIDDLEWARE, *sign_on_settings.middleware(asks_for_codes=True)],
            SOCIALACCOUNT_ADAPTER=sign_on_settings.ADAPTER,
            MFA_ADAPTER=sign_on_settings.SECOND_FACTOR_ADAPTER,
            MSH_SECOND_FACTOR=["Supervisor"],
            SOCIALACCOUNT_LOGIN_ON_GET=True,
            SOCIALACCOUNT_PROVIDERS=sign_on_settings.providers(running.issuer, CLIENT, SECRET),
            ROOT_URLCONF="tests.sign_on.urls",
        ),
        _apps(sign_on_settings.APPS),
    ):
        yield


@pytest.fixture
def tables(_installed: None, db: None) -> None:
    with connection.schema_editor() as editor:
        for model in apps.get_models():
            if model.__module__.startswith("allauth."):
                editor.create_model(model)
    for role in ("Operator", "Viewer", "Supervisor"):
        Group.objects.get_or_create(name=role)


@pytest.fixture
def provider(tables: None, running: Provider) -> Provider:
    running.user = {"sub": "a-1", "preferred_username": "ann", "groups": ["msh-operators"]}
    running.falsify = lambda claims: claims
    running.signs, running.algorithm = running.published, "RS256"
    running.asked.clear()
    return running
