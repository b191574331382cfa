"""Terms of an agreement, as far as the state tables need them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import NoReturn, Self

from .errors import UnreadableTermsError

HTTP_DEADLINE_SHARE = 0.9  # of Timeout, so that the deadline is always the shorter (D11)


@dataclass(frozen=True, slots=True)
class Terms:
    """The reliable messaging parameters of one agreement (000 §2.3). All times in whole seconds.

    The three transient values are the ceilings of D10: how many TransientErrors in a row, for
    how long in all, and the longest single wait we grant. `early_warning`: the retry with which
    the From-Party is notified that its message is late; 0 is never.
    """

    timeout: int
    retries: int
    retry_interval: int
    transient_count_limit: int = 100
    transient_time_limit: int = 86_400
    transient_wait_limit: int = 3_600
    early_warning: int = 0

    @classmethod
    def of_stored(cls, stored: Mapping[str, int]) -> Self:
        """Terms as they were stored. Names that a later version has added are left out. Raises
        UnreadableTermsError if they are none."""
        if not isinstance(stored, Mapping):
            raise UnreadableTermsError(
                f"stored terms are not an object but a {type(stored).__name__}"
            )
        known = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
        for name, value in known.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise UnreadableTermsError(
                    f"{name} of the stored terms is not an integer: {value!r}"
                )
        try:
            return cls(**known)
        except TypeError as missing:
            raise UnreadableTermsError(f"stored terms are incomplete: {missing}") from None

    @property
    def retry_horizon(self) -> int:
        """Seconds from the first transmission to suspension (D6). Retries = 0: Timeout."""
        return self.timeout + self.retries * self.retry_interval

    def granted(self, asked: float | None) -> timedelta:
        """The wait granted to a peer that asks for `asked` seconds, or for none (D10, D54)."""
        if asked is None or asked < 0:
            return timedelta(seconds=self.retry_interval)
        return timedelta(seconds=min(max(asked, 1), self.transient_wait_limit))

    def wait_after_failure(self, retry_after: float | None) -> timedelta:
        """The wait after an attempt that failed (D8, D54): RetryInterval, or as long as the peer
        asks for, if that is longer."""
        return max(timedelta(seconds=self.retry_interval), self.granted(retry_after))

    @property
    def farthest_wait(self) -> timedelta:
        """A due time farther away than this cannot be: the clock was set back (D13)."""
        longest = max(self.timeout, self.retry_interval, self.transient_wait_limit)
        return timedelta(seconds=2 * longest)

    def http_deadline(self, cap: float) -> float:
        """Seconds one HTTP attempt may take: `cap`, but always shorter than Timeout (D11)."""
        return min(cap, HTTP_DEADLINE_SHARE * self.timeout)


class UnreadableTerms(Terms):
    """Stands for stored terms that cannot be read. Steps that need no terms are still possible,
    such as taking an Acknowledgement; each access to a value raises UnreadableTermsError."""

    __slots__ = ("_why",)
    _why: str

    def __init__(self, why: str) -> None:
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> NoReturn:
        raise UnreadableTermsError(self._why)

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __repr__ = object.__repr__
