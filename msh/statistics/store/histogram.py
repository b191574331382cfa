"""Times in fixed buckets, so that those of many hours and agreements add up.

Bucket 0 ends at 1 ms, each further one at GROWTH times the end of the one before; the last one is
open. A quantile is read as the middle of its bucket, which is at most ERROR away from it.
"""

from collections.abc import Mapping
from math import sqrt

FIRST = 0.001  # seconds
GROWTH = 1.2
BUCKETS = 120
"""The last one begins at about 25 days."""
ERROR = sqrt(GROWTH) - 1
"""Of a quantile, relative: 9.6 %, for times from 1 ms on."""


def quantile(numbers: Mapping[int, int], share: float) -> float | None:
    """Return the seconds within which this share of `numbers`, by bucket, was. None if there are
    none."""
    wanted = share * sum(numbers.values())
    seen = 0
    for bucket in sorted(numbers):
        seen += numbers[bucket]
        if seen >= wanted and numbers[bucket]:
            return middle(bucket)
    return None


def middle(bucket: int) -> float:
    """Return, in seconds, the geometric mean of its ends; of the first bucket its upper end."""
    return FIRST if bucket == 0 else FIRST * float(GROWTH ** (bucket - 0.5))
