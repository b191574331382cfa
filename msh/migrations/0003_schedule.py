"""The sweep: beat looks at each kind of work every second. Operators may edit the rows."""

from django.db import migrations

TASKS = {
    "sweep: carry": "msh.tasks.carry",
    "sweep: deliver": "msh.tasks.deliver",
    "sweep: notify": "msh.tasks.notify",
}


def schedule(apps, schema_editor):
    interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
        every=1, period="seconds"
    )
    entries = apps.get_model("django_celery_beat", "PeriodicTask").objects
    for name, task in TASKS.items():
        entries.get_or_create(
            name=name, defaults={"task": task, "interval": interval, "expire_seconds": 2}
        )


def unschedule(apps, schema_editor):
    entries = apps.get_model("django_celery_beat", "PeriodicTask").objects
    entries.filter(name__in=TASKS).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("msh", "0002_history_append_only"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]
    operations = [migrations.RunPython(schedule, unschedule)]
