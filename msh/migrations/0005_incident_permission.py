"""Who may say that an incident is resolved."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("msh", "0004_operator_permissions")]
    operations = [
        migrations.AlterModelOptions(
            name="incident",
            options={
                "ordering": ["-opened_at"],
                "permissions": [("resolve_incident", "Can resolve an incident")],
            },
        ),
    ]
