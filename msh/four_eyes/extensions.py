"""Where acts ask for a second person; what was confirmed is done by the clock."""

from msh.flows.errors import Proposal, SecondPersonNeeded
from msh.flows.operations import guard, sweeps
from msh.flows.operations.guard import Asked
from msh.store.history import Actor

from . import store
from .flows import requests

sweeps.for_confirmed_acts.register(requests.run_prune)


@guard.asks.register
def ask(needed: SecondPersonNeeded) -> Asked:
    row = requests.ask(needed)
    return Asked(row.pk, row.until, requests.text_of(row))


@guard.calls_out.register
def call_out(proposal: Proposal, actor: Actor, why: str) -> None:
    store.call_out(requests.row_of(proposal, actor), why)
