from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("msh", "0003_index")]
    operations = [
        AddConstraintNotValid(
            "inboundmessage",
            models.CheckConstraint(condition=~models.Q(message_id=""), name="later_named"),
        )
    ]
