"""Post one job to the address in the first argument: a process that tests can let die."""

import asyncio
import sys
import time

from msh.transport.http import HttpTransport
from msh.transport.job import Job


async def post_once(url: str) -> None:
    transport = HttpTransport()
    later = time.monotonic() + 60
    await transport.post(Job("job", 1, url, "text/plain", b"--b--", "", 10.0, later))
    await transport.close()


if __name__ == "__main__":
    asyncio.run(post_once(sys.argv[1]))
