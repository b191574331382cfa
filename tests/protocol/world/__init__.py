"""Two MSHs of the pure cores over a link that may drop, repeat, delay and reorder everything.

`link.py` is the simulation: the link, one clock, the promises that both dialects make. What a
dialect's two MSHs hold on their disks, and what else it promises, is a World of its own:
`lanes.py` (the draft) and `flights.py` (ebMS 2.0, with the hosts of `flight_hosts.py`).
`walk.py` lets things happen.
"""
