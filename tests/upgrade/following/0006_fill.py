from django.db import migrations, models

from msh.store.migrating import BackFill


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("msh", "0005_validate")]
    operations = [
        BackFill("outboundmessage", {"note": models.F("message_id")}, models.Q(note__isnull=True))
    ]
