"""What happened is never rewritten: the database itself refuses."""

from django.db import migrations

REFUSE = """
CREATE FUNCTION msh_history_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history is append-only';
END $$;
CREATE TRIGGER msh_history_append_only BEFORE UPDATE ON msh_history
    FOR EACH STATEMENT EXECUTE FUNCTION msh_history_refuse_update();
"""
ALLOW = """
DROP TRIGGER msh_history_append_only ON msh_history;
DROP FUNCTION msh_history_refuse_update();
"""


class Migration(migrations.Migration):
    dependencies = [("msh", "0001_initial")]
    operations = [migrations.RunSQL(REFUSE, ALLOW)]
