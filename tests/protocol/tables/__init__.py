"""The tables of states as data: every row, and what becomes of each kind of value.

Written from the specification, by hand: nothing here is computed by the code under test.
"""

from . import delivery, flight, gate, numbering, sender

TABLES = {one.TABLE.name: one.TABLE for one in (sender, flight, gate, numbering, delivery)}
