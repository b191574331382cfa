"""What a test does most: submit a message, claim a copy of it, end its attempt."""

from abc import ABC, abstractmethod
from typing import Any

from msh.models import OutboundMessage
from msh.protocol.attempt import AttemptResult
from msh.transport.job import Job

from .byhand import TRANSMITTED


class Posting(ABC):
    @abstractmethod
    def submit(self, text: str = "<order/>", **options: Any) -> OutboundMessage: ...

    @abstractmethod
    def poll(self) -> list[Job]:
        """What the sending loop does in one poll, without the carrier."""

    @abstractmethod
    def end(self, job: Job, result: AttemptResult = TRANSMITTED) -> None:
        """The job's attempt ended like this."""

    def start(self, *content: str, **options: Any) -> tuple[OutboundMessage, Job]:
        """Submit a message and claim its copy, the only one that is due."""
        message = self.submit(*content, **options)
        (job,) = self.poll()
        return message, job

    def post(self, result: AttemptResult = TRANSMITTED) -> Job:
        """Claim the only copy that is due, and end its attempt like this."""
        (job,) = self.poll()
        self.end(job, result)
        return job
