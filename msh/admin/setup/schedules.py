"""The pages of django-celery-beat, in the layout of the console."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django_celery_beat import admin as beat
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)
from unfold.admin import ModelAdmin
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from msh.admin.framework.saved_filters import FilteredList
from msh.protocol.four_eyes import Verb, parse_rules

_SCHEDULES = (ClockedSchedule, CrontabSchedule, IntervalSchedule, SolarSchedule)

# The import of beat.admin has registered its pages, in whatever order apps are discovered.
admin.site.unregister([PeriodicTask, *_SCHEDULES])


class _TaskSelect(UnfoldAdminSelectWidget, beat.TaskSelectWidget):
    """A list of the registered tasks."""


class _PeriodicTaskForm(beat.PeriodicTaskForm):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = _TaskSelect()


@admin.register(PeriodicTask)
class PeriodicTaskAdmin(beat.PeriodicTaskAdmin, ModelAdmin):
    form = _PeriodicTaskForm
    date_hierarchy = None
    list_filter = ("enabled",)

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return FilteredList

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Beat needs no permission for them; here they need that to change a task. Nor does it
        ask a second person before it runs one."""
        if not self.has_change_permission(request):
            return {}
        actions: dict[str, Any] = super().get_actions(request)
        if Verb.PRUNE in parse_rules(settings.MSH_SECOND_PERSON):
            actions.pop("run_tasks", None)
        return actions


@admin.register(*_SCHEDULES)
class ScheduleAdmin(ModelAdmin):
    """When tasks run."""
