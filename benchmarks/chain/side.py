"""What the processes of one side share: where its servers are."""

from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple

import psycopg
import redis

Database = psycopg.Connection[Any]


class Side(NamedTuple):
    """`wake_ups`: the list in Valkey that the worker listens to. `ready` is waited for by every
    process when it is."""

    database: str
    valkey: str
    wake_ups: str
    pairs: int
    ready: Barrier

    def connect(self) -> Database:
        return psycopg.connect(self.database, autocommit=True, prepare_threshold=0)

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.valkey)
