from django.apps import AppConfig
from django.conf import settings

from msh import trace_hook
from msh.tracing.spans import Recorder


class TracingConfig(AppConfig):
    name = "msh.tracing"
    verbose_name = "Traces"

    def ready(self) -> None:
        given = settings.MSH_OTLP_ENDPOINT, settings.MSH_TRACES_SHARE, settings.MSH_URI
        trace_hook.start(Recorder(*given))
