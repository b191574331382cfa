"""The flight's table as data: every row, and what becomes of a flight in every state.

Written from the specification, by hand: nothing here is computed by the code under test.
"""

from .answers import ANSWERS
from .copies import COPIES
from .operators import OPERATORS

ROWS = (*COPIES, *ANSWERS, *OPERATORS)
