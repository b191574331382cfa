from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class MshConfig(AppConfig):
    name = "msh"
    verbose_name = "Message Service Handler"

    def ready(self) -> None:
        from msh import checks  # noqa: F401, PLC0415  registers them; needs the models

        post_migrate.connect(_apply_defaults, dispatch_uid="msh.defaults")


def _apply_defaults(**given: Any) -> None:
    from msh.defaults import apply_defaults  # noqa: PLC0415  needs the models of beat and roles

    apply_defaults(**given)
