from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("msh", "0001_initial")]
    operations = [
        migrations.AddField("outboundmessage", "note", models.TextField(null=True)),
        migrations.AddField("inboundmessage", "note", models.TextField(db_default="")),
        migrations.AddField("outboundlink", "note", models.TextField(null=True)),
        migrations.AddField("inboundlink", "note", models.TextField(db_default="")),
        migrations.AddField("history", "note", models.TextField(db_default="")),
        migrations.AddField("attempt", "note", models.TextField(null=True)),
        migrations.AddField("signal", "note", models.TextField(null=True)),
    ]
