"""The operator's verbs on a link: a permission for each."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("msh", "0003_schedule")]
    operations = [
        migrations.AlterModelOptions(
            name="outboundlink",
            options={
                "permissions": [
                    ("suspend_outboundlink", "Can suspend sending to a partner"),
                    ("resume_outboundlink", "Can resolve and resume sending to a partner"),
                    ("reset_retries_outboundlink", "Can reset the retries of a message in flight"),
                    ("send_now_outboundlink", "Can send a message in flight again at once"),
                ]
            },
        ),
    ]
