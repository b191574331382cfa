"""A wake-up that cannot be sent is no error: the sweep polls."""

import os
import socket
import subprocess
import sys

ASKS_FOR_EVERYTHING = """
import django
django.setup()
from msh.flows.wake_up import WakeUp, wake_up
for _ in range(100):
    wake_up(*WakeUp)
print("still here")
"""


def test_without_redis_the_process_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "msh.settings",
        "REDIS_URL": f"redis://127.0.0.1:{port}/0",
    }

    ended = subprocess.run(
        [sys.executable, "-c", ASKS_FOR_EVERYTHING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, "still here\n")
    assert 1 <= ended.stderr.count("the next sweep finds the work") < 10, "not a warning for each"
