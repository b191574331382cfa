"""What features do when the schedule has a worker look for work: `msh/tasks.py` calls it."""

from collections.abc import Callable

from msh.extension import ExtensionPoint

Look = Callable[[], object]

for_business_keys: ExtensionPoint[Look] = ExtensionPoint()
"""Called while there are rules whose messages are not all indexed."""
for_confirmed_acts: ExtensionPoint[Look] = ExtensionPoint()
for_counts: ExtensionPoint[Look] = ExtensionPoint()
for_notices: ExtensionPoint[Look] = ExtensionPoint()
