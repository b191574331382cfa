from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("msh", "0004_not_valid")]
    operations = [ValidateConstraint("inboundmessage", "later_named")]
