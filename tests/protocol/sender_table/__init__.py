"""The Sender's table as data: every row, and what becomes of every kind of lane.

Written from the specification, by hand: nothing here is computed by the code under test.
"""

from .answers import ANSWERS
from .attempts import ATTEMPTS
from .operators import OPERATORS

ROWS = (*ATTEMPTS, *ANSWERS, *OPERATORS)
