from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("msh", "0001_initial")]
    operations = [
        migrations.AddIndex("outboundmessage", models.Index(fields=["size"], name="later_size"))
    ]
