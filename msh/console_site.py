"""The site that serves the console, in place of unfold's own (`INSTALLED_APPS`)."""

from django.contrib import admin
from django.contrib.admin import sites
from django.http import HttpRequest
from unfold.apps import BasicAppConfig
from unfold.sites import UnfoldAdminSite


class ConsoleSite(UnfoldAdminSite):
    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[object]:
        """Of one application only. That of all, with the permissions for each model, cost every
        page a fourteenth of its time, and no page shows it: the sidebar has a menu of its own."""
        return super().get_app_list(request, app_label) if app_label else []


class Unfold(BasicAppConfig):
    def ready(self) -> None:
        admin.site = sites.site = ConsoleSite()
