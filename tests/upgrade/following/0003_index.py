from django.db import migrations, models

from msh.store.migrating import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("msh", "0002_columns")]
    operations = [
        AddIndexConcurrently(
            "outboundmessage", models.Index(fields=["submitted_at", "size"], name="later_size")
        )
    ]
