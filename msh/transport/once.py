"""One POST that somebody waits for, made by the thread that asks for it."""

import asyncio

from msh.protocol.attempt import AttemptResult
from msh.transport.carrier import NOT_SENT
from msh.transport.job import Job
from msh.transport.registry import transport_for


def post(job: Job) -> AttemptResult:
    """Transmit one job and return how it ended. Waits until the job's deadline at most. Raises
    UnknownSchemeError."""
    return asyncio.run(_post(job))


async def _post(job: Job) -> AttemptResult:
    transport = transport_for(job.url)()
    try:
        return await transport.post(job) or NOT_SENT
    finally:
        await transport.close()
