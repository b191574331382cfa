from django.apps import AppConfig
from django.apps import apps as registry
from django.apps.registry import Apps
from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_migrate

from msh import trace_hook


class MshConfig(AppConfig):
    name = "msh"
    verbose_name = "Message Service Handler"

    def ready(self) -> None:
        from msh import checks  # noqa: F401, PLC0415  registers them

        endpoint, share = settings.MSH_OTLP_ENDPOINT, settings.MSH_TRACES_SHARE
        # A check names what is wrong with them.
        if endpoint and 0 <= share <= 1 and trace_hook.is_installed():
            from msh.tracing.spans import Recorder  # noqa: PLC0415  OpenTelemetry is optional

            trace_hook.start(Recorder(endpoint, share, settings.MSH_URI))
        post_migrate.connect(_apply_defaults, dispatch_uid="msh.defaults")


def _apply_defaults(sender: AppConfig, apps: Apps = registry, **_: object) -> None:
    """After the last app, since Django makes the permissions app by app. `apps` are the models as
    they are migrated: none after `migrate msh zero`."""
    with_models = [config for config in registry.get_app_configs() if config.models_module]
    if sender is not with_models[-1] or ("msh", "applieddefault") not in _migrated(apps):
        return
    from msh.beat.schedule import apply_schedule  # noqa: PLC0415
    from msh.roles import apply_roles  # noqa: PLC0415  needs the models

    with transaction.atomic():
        apply_roles()
        apply_schedule()


def _migrated(apps: Apps) -> set[tuple[str, str]]:
    return {(model._meta.app_label, model._meta.model_name or "") for model in apps.get_models()}  # noqa: SLF001  public
