"""Counts what is queued for the workers, as the broker sees it."""

import re
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import redis

_QUEUED = re.compile(r'"task": "msh\.tasks\.(\w+)"')


class Runs(threading.Thread):
    """How often each task was queued since the start."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.counts: Counter[str] = Counter()
        self._client = redis.Redis.from_url(url, decode_responses=True)

    def run(self) -> None:
        monitor: Any = self._client.monitor()  # type: ignore[no-untyped-call]
        with suppress(redis.RedisError, OSError, ValueError), monitor:
            for line in monitor.listen():
                if line["command"].startswith("LPUSH celery "):
                    self.counts.update(_QUEUED.findall(line["command"].replace('\\"', '"')))

    def stop(self) -> None:
        self._client.close()
