"""Beat's host counted the expiry and the worker's host compared it with its own clock: two seconds
apart, and every sweep was dropped."""

from django.db import migrations


def keep(apps, schema_editor):
    entries = apps.get_model("django_celery_beat", "PeriodicTask").objects
    entries.filter(task__startswith="msh.tasks.").update(expire_seconds=None)


class Migration(migrations.Migration):

    dependencies = [
        ('msh', '0017_token_consumers'),
        ('django_celery_beat', '0019_alter_periodictasks_options'),
    ]

    operations = [migrations.RunPython(keep, migrations.RunPython.noop)]
