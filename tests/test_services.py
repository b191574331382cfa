import os

import redis

from tests.services import REDIS_EACH, redis_of, spare_redis


def test_redis_databases_of_four_workers_exist_and_none_is_shared() -> None:
    own = [redis_of(os.environ["REDIS_URL"], f"gw{number}") for number in range(4)]
    spare = [spare_redis(url, number) for url in own for number in range(1, REDIS_EACH)]

    assert len({*own, *spare}) == len(own) * REDIS_EACH
    for url in own + spare:
        with redis.Redis.from_url(url) as client:
            assert client.ping()
