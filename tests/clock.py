"""A clock of a client under test."""


class Clock:
    """Time passes only by waiting, and where a test lets it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        """Seconds that the client has waited, each time."""

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
