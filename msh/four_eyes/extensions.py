"""Where acts ask for a second person."""

from msh.flows.errors import Proposal, SecondPersonNeeded
from msh.flows.operations import guard
from msh.flows.operations.guard import Asked
from msh.store.history import Actor

from . import store
from .flows import requests


@guard.asks.register
def ask(needed: SecondPersonNeeded) -> Asked:
    row = requests.ask(needed)
    return Asked(row.pk, row.until, requests.text_of(row))


@guard.calls_out.register
def call_out(proposal: Proposal, actor: Actor, why: str) -> None:
    store.call_out(requests.row_of(proposal, actor), why)
