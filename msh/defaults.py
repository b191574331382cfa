"""What a version of the MSH brings into its database beside the tables: roles and the schedule."""

from django.apps import AppConfig
from django.apps import apps as registry
from django.apps.registry import Apps
from django.db import transaction

from msh.beat.schedule import apply_schedule
from msh.roles import apply_roles


def apply_defaults(sender: AppConfig, apps: Apps = registry, **_: object) -> None:
    """After the last app, since Django makes the permissions app by app. `apps` are the models as
    they are migrated: none after `migrate msh zero`."""
    with_models = [config for config in registry.get_app_configs() if config.models_module]
    if sender is not with_models[-1] or ("msh", "applieddefault") not in _migrated(apps):
        return
    with transaction.atomic():
        apply_roles()
        apply_schedule()


def _migrated(apps: Apps) -> set[tuple[str, str]]:
    return {(model._meta.app_label, model._meta.model_name or "") for model in apps.get_models()}  # noqa: SLF001  public
