"""Codes of Errors, statuses of the API, kinds of incidents and classes of answers."""

from msh.api.framework.problems import TITLES
from msh.flows.operations.inspection.causes import ANSWERS, CAUSES, Cause
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.ebms.vocabulary import ErrorCode as Ebms2Code
from msh.protocol.ebms.vocabulary import FaultCode
from msh.protocol.vocabulary import RESYNCHRONISE, ErrorCode
from tools.site.markdown import table

_HEAD = """\
# Codes and causes

## Errors of the draft

Codes of an Error Message. A TransientError asks to wait; every other one is a hard error. When each
of them is sent: [wire format](../spec/wire.md).
"""
_EBMS2 = """\
## Errors of ebMS 2.0

Codes of an ErrorList, and of a SOAP Fault for what is no message of the standard
([ebMS 2.0](../ebms2.md)).
"""
_API = """\
## API

Statuses of the [REST API](../api.md), in `status` and `title` of its problem documents. Their
`detail` says what is wrong and how to correct it.
"""
_INCIDENTS = """\
## Incidents

Kinds of incidents, as the API and notifications name them. For `retries_spent`, `refused_by_peer`
and `partner_unreachable` the partner's [last answer](#answers-of-partners) decides what is
recommended.
"""
_ANSWERS = """\
## Answers of partners

Reasons of an attempt (`msh.protocol.reason`), with what the console advises.
"""


def page() -> str:
    return "\n".join(
        [
            _HEAD,
            table(["code", "severity", ""], [_code(code) for code in ErrorCode]),
            _EBMS2,
            table(
                ["code", "of"],
                [[f"`{code}`", "ErrorList"] for code in Ebms2Code]
                + [[f"`{code}`", "SOAP Fault"] for code in FaultCode],
            ),
            _API,
            table(["status", "title"], [[status, title] for status, title in TITLES.items()]),
            "## Outcomes of an attempt\n",
            ", ".join(f"`{outcome}`" for outcome in AttemptOutcome) + "\n",
            _INCIDENTS,
            table(["kind", *_OF_A_CAUSE], [_cause(kind, cause) for kind, cause in CAUSES.items()]),
            _ANSWERS,
            table(
                ["reason", *_OF_A_CAUSE], [_cause(name, cause) for name, cause in ANSWERS.items()]
            ),
        ]
    )


def _code(code: ErrorCode) -> list[str]:
    remark = "the numbers of both sides differ: resynchronise" if code in RESYNCHRONISE else ""
    if code is ErrorCode.UNKNOWN:
        remark = "what a code is read as that is none of these"
    return [f"`{code}`", code.severity, remark]


_OF_A_CAUSE = ["meaning", "what to do", "runbook"]


def _cause(name: str, cause: Cause) -> list[str]:
    runbook = f"[{cause.runbook}](../runbooks/{cause.runbook}.md)" if cause.runbook else ""
    return [f"`{name}`", cause.title, cause.advice, runbook]
