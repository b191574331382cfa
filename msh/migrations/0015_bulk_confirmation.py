from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("msh", "0014_links_from_the_start")]

    operations = [
        migrations.AddField(
            model_name="bulkjob",
            name="confirmation",
            field=models.UUIDField(editable=False, null=True, unique=True),
        ),
    ]
