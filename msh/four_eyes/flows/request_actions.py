"""What operators can do to a request for a second person."""

from msh.flows.operations.operator_action import OperatorAction

from . import requests

CONFIRM = OperatorAction(
    name="confirm",
    title="Confirm",
    permissions=("msh.view_actrequest", requests.CONFIRM_PERMISSION),
    flow=requests.confirm,
    irreversible=True,
)
REFUSE = OperatorAction(
    name="refuse",
    title="Refuse",
    effect="Nothing is done. The requester sees your reason.",
    done="Refused.",
    permissions=("msh.view_actrequest", requests.CONFIRM_PERMISSION),
    flow=requests.refuse,
)
WITHDRAW = OperatorAction(
    name="withdraw",
    title="Withdraw",
    effect="Nothing is done, and the request can no longer be confirmed.",
    done="Withdrawn.",
    permissions=("msh.view_actrequest",),
    flow=requests.withdraw,
)
