"""The audit log of the configuration, newest first."""

from django.contrib import admin
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.audited import changes_text
from msh.admin.framework.filters import WordsFilter
from msh.admin.framework.pages import LargeTableAdmin
from msh.models import SettingChange


@admin.register(SettingChange)
class SettingChangeAdmin(LargeTableAdmin[SettingChange]):
    list_display = ("time", "kind", "row", "what", "values", "actor", "why")
    list_filter = (("what", WordsFilter),)
    search_fields = ("name", "actor")
    search_help_text = "Complete name of the changed object or of the user"
    fields = ("at", "actor", "what", "kind", "row", "values", "why")

    @display(description="Time")
    def time(self, change: SettingChange) -> str:
        return markup.time_of(change.at)

    @display(description="Name")
    def row(self, change: SettingChange) -> str:
        return markup.isolated(change.name)

    @display(description="Changes")
    def values(self, change: SettingChange) -> str:
        return changes_text(change)

    @display(description="Reason")
    def why(self, change: SettingChange) -> str:
        return markup.verbatim(change.reason)
