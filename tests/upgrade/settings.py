"""Of a later version, whose only difference is that it has more migrations."""

from msh.settings import *  # noqa: F403

MIGRATION_MODULES = {"msh": "tests.upgrade.following"}
