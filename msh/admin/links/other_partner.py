"""Whether another partner has answered: its name is in the answer. Addresses are easily swapped."""

import re
from collections.abc import Mapping, Sequence

from msh.flows.operations.inspection.causes import ANSWERS, Cause
from msh.models import OutboundLink
from msh.protocol.reason import Reason
from partners.models import Partner

_OF_ANOTHER = (ANSWERS[Reason.CREDENTIALS], ANSWERS[Reason.ADDRESS])
"""Causes of refusals that an MSH also gives to a message for another one."""
_WORD = re.compile(r"[\w-]{3,63}")
_NAMED = re.compile(
    r"""["'`“«]([\w-]{3,63})["'`”»]|\b(?:partner|party|this is)[:=\s]+["'`“«]?([\w-]{3,63})""",
    re.IGNORECASE,
)
"""Text that is meant as a name: in quotes, or after a word that says so. "address" and "gateway"
may be names of partners too."""


def may_be_of_another(cause: Cause) -> bool:
    return cause in _OF_ANOTHER


def partners_named(answers: Mapping[str, str]) -> Mapping[str, str]:
    """By partner, the other partner that its answer names, if it does not name itself. `answers`:
    text by name of the partner. One statement."""
    words = {
        name: {one for pair in _NAMED.findall(text) for one in pair if one}
        for name, text in answers.items()
        if name not in _WORD.findall(text)
    }
    others: set[str] = set().union(*words.values())
    known = set(Partner.objects.filter(name__in=others).values_list("name", flat=True))
    found = {name: sorted(said & known) for name, said in words.items()}
    return {name: named[0] for name, named in found.items() if named}


def hints(answers: Sequence[tuple[OutboundLink, str]]) -> Sequence[str]:
    """A sentence for each partner whose answer names another one. `answers`: link and text."""
    named = partners_named({link.partner.name: text for link, text in answers})
    return [
        f"The answer of {name} names partner {other}: the address may be that of {other}. Compare"
        " the addresses of both."
        for name, other in named.items()
    ]
