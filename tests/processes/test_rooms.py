"""A feature that is taken out of INSTALLED_APPS leaves an MSH that works."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

FEATURES = ("msh.alerts", "msh.business_keys", "msh.four_eyes", "msh.statistics")
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
from msh.settings import *

INSTALLED_APPS = [one for one in INSTALLED_APPS if one not in {left_out!r}]
MSH_SECOND_PERSON = {second_person!r}
"""
START = """
import django

django.setup()
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.test.utils import setup_test_environment

setup_test_environment()
"""
WORK = """
import re
from django.contrib.auth.models import User
from django.utils import timezone
from msh import api_urls, roles, tasks
from msh.beat.schedule import SCHEDULE, apply_schedule
from msh.models import AppliedDefault, InboundMessage, Incident, OutboundMessage
from tests.flows.world import make_world

call_command("check")
with transaction.atomic():
    AppliedDefault.objects.all().delete()
    roles.apply_roles()
    apply_schedule()
    world = make_world()
    sent = world.submit()
    world.settle()
    sent.refresh_from_db()
    assert sent.state == "acknowledged", sent.state
    assert InboundMessage.objects.filter(message_id=sent.message_id).exists()
    about = {"partner": world.there, "kind": "retries_spent", "direction": "out"}
    incident = Incident.objects.create(**about, opened_at=timezone.now(), last_at=timezone.now())
    for task, _ in SCHEDULE.values():
        getattr(tasks, task.rpartition(".")[2])()
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    index = client.get("/admin/").content.decode()
    pages = {link for link in re.findall('href="(/admin/[^"#?]*)', index) if "logout" not in link}
    assert {"/admin/msh/outboundmessage/", "/admin/msh/incident/"} <= pages, pages
    pages |= {
        f"/admin/msh/outboundmessage/{sent.pk}/change/",
        f"/admin/msh/incident/{incident.pk}/change/",
        f"/admin/partner/{world.there.pk}/",
        "/admin/search-all/?q=order",
        "/api/schema",
    }
    wrong = {page: status for page in pages if (status := client.get(page).status_code) != 200}
    assert not wrong, wrong
    transaction.set_rollback(True)
print("all works")
"""
ALONE = """
from msh.flows.errors import NotPossible
from msh.flows.operations.resynchronise import reset_sequence
from msh.store.history import Actor
from tests.flows.world import make_world

try:
    call_command("check")
except Exception as error:
    print("E022" if "msh.E022" in str(error) else error)
with transaction.atomic():
    world = make_world()
    try:
        reset_sequence(world.there, Actor("ann", "they have reset"))
    except NotPossible as refused:
        print(refused)
    transaction.set_rollback(True)
"""


def run(folder: Path, script: str, left_out: set[str], second_person: tuple[str, ...] = ()) -> str:
    """Run the script with settings that leave these features out; return what it prints."""
    module = folder / "settings_of_rooms.py"
    module.write_text(SETTINGS.format(left_out=left_out, second_person=second_person))
    database = urlsplit(os.environ["DATABASE_URL"])
    name = connection.settings_dict["NAME"]
    done = subprocess.run(
        [sys.executable, "-c", START + script],
        cwd=ROOT,
        env=os.environ
        | {
            "DATABASE_URL": database._replace(path=f"/{name}").geturl(),
            "DJANGO_SETTINGS_MODULE": module.stem,
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_feature_is_left_out_once() -> None:
    core = {"msh.console_site.Unfold", "msh.management.inspection", "msh.standalone"}
    ours = {one for one in settings.INSTALLED_APPS if one.startswith("msh.")}
    optional = {"msh.sign_on", "msh.tracing"}  # they are left out unless they are configured
    assert ours - core - optional == set(FEATURES)


@pytest.mark.django_db
@pytest.mark.parametrize("left_out", [*FEATURES, "all"])
def test_msh_works_without_a_feature(tmp_path: Path, left_out: str) -> None:
    features = set(FEATURES) if left_out == "all" else {left_out}
    assert run(tmp_path, WORK, features).splitlines()[-1] == "all works"


@pytest.mark.django_db
def test_act_that_needs_a_second_person_is_refused_where_nobody_can_be_asked(
    tmp_path: Path,
) -> None:
    """The check says so before, and the act changes nothing."""
    shown = run(tmp_path, ALONE, {"msh.four_eyes"}, second_person=("reset",))
    assert "E022" in shown
    assert "msh.four_eyes is not one of the INSTALLED_APPS" in shown
