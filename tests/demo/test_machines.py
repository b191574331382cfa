from demo.machines import own_servers


def test_given_servers_are_shared_but_not_their_databases() -> None:
    given = {"DATABASE_URL": "postgres://me:pw@db:5432/msh", "REDIS_URL": "redis://cache:6379/3"}
    assert own_servers(given, "a") == {
        "DATABASE_URL": "postgres://me:pw@db:5432/msh_demo_a",
        "REDIS_URL": "redis://cache:6379/4",
    }
    assert own_servers(given, "b") == {
        "DATABASE_URL": "postgres://me:pw@db:5432/msh_demo_b",
        "REDIS_URL": "redis://cache:6379/5",
    }


def test_without_given_servers_an_msh_starts_its_own() -> None:
    assert own_servers({"DATABASE_URL": ""}, "a") == {}
