from django.apps import AppConfig


class MshConfig(AppConfig):
    name = "msh"
    verbose_name = "Message Service Handler"

    def ready(self) -> None:
        from msh import checks  # noqa: F401, PLC0415  registers them
