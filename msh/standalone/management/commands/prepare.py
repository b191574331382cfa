"""Make the database ready for the processes of this version."""

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from msh.flows.delivery import consumers
from msh.settings import env
from msh.standalone.waiting import Waiting
from msh.store import migrating


class Command(BaseCommand):
    help = (
        "Migrate the database, set the consumer 'default' to MSH_CONSUMER, and create the"
        " operator 'admin' if DJANGO_SUPERUSER_PASSWORD is set and there is none. Can be"
        " repeated."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data", metavar="FOLDER", help="the folder of the MSH")

    def handle(self, *args: object, **options: object) -> None:
        _refuse_unknown_migrations()
        with Waiting(self.stderr.write, "migrating the database"):
            try:
                migrating.migrate(self.stderr.write)
            except migrating.NotMigrated as error:
                raise CommandError(str(error)) from error
        if settings.MSH_CONSUMER:
            consumers.keep_default(settings.MSH_CONSUMER)
        self._ensure_operator(env.str("DJANGO_SUPERUSER_PASSWORD", default=""))

    def _ensure_operator(self, password: str) -> None:
        users = get_user_model().objects
        if password and not users.filter(username="admin").exists():
            users.create_superuser("admin", password=password)


def _refuse_unknown_migrations() -> None:
    """The tables of another version cannot be migrated from here."""
    loader = MigrationLoader(connection)
    unknown = [
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in ("msh", "partners") and (app, name) not in loader.disk_migrations
    ]
    if unknown:
        raise CommandError(
            f"The database was prepared by another version of MSH: it has {max(unknown)},"
            " which this version does not know. Use that version, or an empty database."
        )
