"""A process that owns embedded servers until its standard input ends: `owner.py FOLDER`."""

import json
import sys
from pathlib import Path

from msh.standalone.embedded import EmbeddedServers

if __name__ == "__main__":
    with EmbeddedServers(Path(sys.argv[1]), given={}) as servers:
        print(json.dumps(servers.settings), flush=True)  # noqa: T201
        sys.stdin.read()
