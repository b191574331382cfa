"""What each kind of incident means, and what an operator should do.

`cause_of` decides by the kind and by the Reason of the partner's last answer. The console, the API
(`explanation`) and `manage.py trace` say what it says; it is a pure function.
"""

from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.reason import Reason

from .answers import ANSWERS, TEST_FIRST, Cause, Help
from .ways import Standing


def cause_of(kind: str, reason: Reason = Reason.NONE, standing: Standing = Standing.LINK) -> Cause:
    """`kind`: an IncidentKind, or OPERATOR. `standing`: what stands still for it."""
    known = CAUSES.get(kind) or Cause(kind, "{Again}.")
    found = ANSWERS.get(reason, known) if kind in _OF_THE_ANSWER else known
    if standing is Standing.OVER and kind in OF_MESSAGES:
        return Cause(found.what, _OVER, found.runbook, (), Standing.OVER)
    return found.of(standing)


_OF_THE_ANSWER = {
    IncidentKind.RETRIES_SPENT,
    IncidentKind.REFUSED_BY_PEER,
    IncidentKind.PARTNER_UNREACHABLE,
}
"""Kinds whose cause is what the last answer says."""
OF_MESSAGES = {
    IncidentKind.RETRIES_SPENT,
    IncidentKind.REFUSED_BY_PEER,
    IncidentKind.ERROR_RECEIVED,
    IncidentKind.MESSAGE_EXPIRED,
    IncidentKind.ANSWER_REFUSED,
    IncidentKind.PROCESSING_FAILED,
    IncidentKind.CONVERSATION_STOPPED,
    IncidentKind.PARTNER_REFUSES,
    IncidentKind.PARTNER_UNREACHABLE,
    IncidentKind.TRANSIENT_LIMIT,
    IncidentKind.RESYNCHRONISE,
}
"""Kinds that are about messages to a partner: when none of them stands still, they are over."""
_OVER = "Nothing of it is suspended, held or failed any more. {Resolve_over}."
ERROR_MESSAGES = {
    IncidentKind.ERROR_RECEIVED,
    IncidentKind.RESYNCHRONISE,
    IncidentKind.TRANSIENT_LIMIT,
}
"""Kinds whose cause is an Error Message of the partner, not the answer to the last copy."""
CAUSES: dict[str, Cause] = {
    OPERATOR: Cause(
        "Suspended by an operator",
        "{Again} when the recorded reason no longer applies.",
        "suspended-by-operator",
    ),
    IncidentKind.RETRIES_SPENT: Cause(
        "No Acknowledgement after all retries",
        "Check that the partner's MSH is running, then {again}. After {resuming}, a partner that"
        " has already stored the message discards the duplicate and acknowledges it again.",
        "no-acknowledgement",
        TEST_FIRST,
    ),
    IncidentKind.REFUSED_BY_PEER: Cause(
        "The partner refused the message permanently",
        "The partner will refuse the same content again. Fix the problem that the last error names,"
        " here or at the partner, then {again}. Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    IncidentKind.TRANSIENT_LIMIT: Cause(
        "The partner asked to wait too often or for too long",
        "Ask the partner when it will accept messages again, then {again}.",
        "busy",
    ),
    IncidentKind.RESYNCHRONISE: Cause(
        "Sequence numbers out of sync with the partner",
        "Sending again does not help. {Resynchronise}: compare our next number with the last number"
        " and MessageId that the partner accepted.",
        "restored",
        (Help.RESYNCHRONISE,),
    ),
    IncidentKind.ERROR_RECEIVED: Cause(
        "The partner answered with an Error",
        "Ask the partner what is wrong with the message. If it corrects its side, {again}."
        " Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    IncidentKind.SEQUENCE_GAP: Cause(
        "A message arrived before its predecessors",
        "It was not stored. The partner was told which numbers are missing and must send them.",
        "gap",
    ),
    IncidentKind.SEQUENCE_STALE: Cause(
        "An unknown message arrived with an old number",
        "It was not stored. Compare our last number and MessageId with the partner's counter."
        " The incident is resolved automatically when messages are accepted again.",
        "conflict",
    ),
    IncidentKind.SEQUENCE_CONFLICT: Cause(
        "A different message arrived with the last accepted number",
        "It was not stored. The partner may have been restored from a backup: compare its counter"
        " with our last number and MessageId. The incident is resolved automatically when messages"
        " are accepted again.",
        "conflict",
    ),
    IncidentKind.MESSAGE_ID_REUSED: Cause(
        "A known MessageId arrived with different content",
        "It was not stored. The partner must send the changed message with a new MessageId. Ask"
        " its operator for that, or whether it is needed no longer. Then {resolve}.",
        "conflict",
    ),
    IncidentKind.RESET_HELD: Cause(
        "The partner restarted at number 1; it waits until an operator allows the reset",
        "The message is not stored here: the partner is asked to send it again. Ask the partner"
        " whether it reset its counter. If it did, {allow_reset}. If its link to us is suspended"
        " by then, its operator resumes it.",
        "reset",
    ),
    IncidentKind.STORE_SHORT: Cause(
        "No space for new messages",
        "Partners are asked to wait. Free disk space or raise the limit. The incident is"
        " resolved automatically when messages are accepted again.",
        "disk-full",
    ),
    IncidentKind.BACKLOG: Cause(
        "The application does not keep up with this partner",
        "The partner is asked to wait. Check the consumer. The incident is resolved"
        " automatically when messages are accepted again.",
        "backlog",
    ),
    IncidentKind.STUCK: Cause(
        "No progress on this link although there is work",
        "The detail and the page of the link say what it waits for, and what to do. If they name"
        " nothing, check that worker and beat are running. The incident is resolved automatically"
        " when there is progress. If you resolve it before that, it is opened again.",
        "stuck",
    ),
    IncidentKind.DELIVERY_FAILED: Cause(
        "The application does not accept a message",
        "All delivery attempts failed. Fix what the last error names in the application. Then"
        " {run_again}, or make another decision.",
        "blocked",
    ),
    IncidentKind.DELIVERY_REJECTED: Cause(
        "The application rejected a message",
        "This is a business error. The message is stored and not delivered again. Agree with"
        " the operator of the application, or with the partner, what to do. Then {run_again}: the"
        " incident is resolved when all of them are completed. Or {resolve}.",
        "blocked",
    ),
    IncidentKind.DELIVERY_IN_DOUBT: Cause(
        "Unknown whether the application has a message",
        "A worker died while the application was processing the message. Search the application"
        " for the MessageId, which was sent as Idempotency-Key. Then {mark_completed}, or"
        " {run_again}.",
        "in-doubt",
    ),
    IncidentKind.NO_CONSUMER: Cause(
        "No consumer for a message",
        "The message and those behind it wait. Add a consumer for its partner, ServiceInterface"
        " and Action. The incident is then resolved automatically.",
        "no-consumer",
    ),
    IncidentKind.ROUTE_FAILED: Cause(
        "A message cannot be forwarded to the next MSH",
        "Check the route of its To party, and the agreement with the partner of the route. Stored"
        " messages are forwarded automatically later. If a message was refused, its sender must"
        " resume.",
        "route",
    ),
    IncidentKind.PROCESSING_FAILED: Cause(
        "A message or a signal could not be processed",
        "The detail names the error: a row that cannot be read, or a defect of this MSH (see the"
        " traceback in its log). Nothing else is blocked. When the error is fixed, {again}. Or"
        " {cancel}.",
        "processing-failed",
        (Help.MESSAGE, Help.RESUME),
    ),
    IncidentKind.WENT_AHEAD_ALONE: Cause(
        "An operator went ahead without a second person",
        "The detail says what was done and why. If in doubt, compare both sides. Then {resolve}.",
        "went-ahead-alone",
    ),
    IncidentKind.CLOCK_DOUBTFUL: Cause(
        "Nothing is deleted because the clock may be wrong",
        "This concerns the whole MSH, not only this partner. Compare the clock of the database"
        " host with a trusted clock. If it is wrong, set it. If it is right, because the MSH was"
        " stopped for a long time, run manage.py prune --the-clock-is-right once. The next run"
        " resolves the incident.",
        "clock",
    ),
    IncidentKind.RETENTION_TOO_SHORT: Cause(
        "MessageIds of a partner are kept longer than configured",
        "Under the partner's agreement a duplicate may arrive later than MSH_KEEP_MESSAGES"
        " allows. MessageIds are therefore kept longer; everything else is deleted on time."
        " Increase MSH_KEEP_MESSAGES, or reduce the retries of the agreement. The incident is"
        " then resolved automatically the next night.",
        "clock",
    ),
    IncidentKind.PARTNER_UNREACHABLE: Cause(
        "The partner cannot be reached",
        "Several attempts in a row were not answered. Messages wait and keep their retries."
        " Check the partner's address, its MSH and the network. If the partner is probed, sending"
        " resumes automatically when a probe is answered. Otherwise {again}.",
        "connection",
        TEST_FIRST,
    ),
    IncidentKind.PARTNER_REFUSES: Cause(
        "The partner refuses one message after the other",
        "Nothing more is sent, so that it does not refuse the whole queue. The detail has its last"
        " answer: correct what it names, here or at the partner. Then {again}. What was refused has"
        " failed: the page of the link lists it, and each can be submitted again or corrected.",
        "refused",
        (Help.MESSAGE, Help.PARTNER, Help.RESUME),
    ),
    IncidentKind.MESSAGE_EXPIRED: Cause(
        "A message was not acknowledged within its TimeToLive",
        "It is not sent again by itself. Ask the partner whether it has the message. If it does"
        " not, {again}.",
        "expired",
    ),
    IncidentKind.PREDECESSOR_MISSING: Cause(
        "Messages of a conversation wait for one that has not arrived",
        "They are stored and acknowledged, and are delivered when the missing message arrives."
        " Ask the partner for the number that the detail names. If it will never arrive,"
        " {skip_missing}, or {drop_held}.",
        "conversation",
    ),
    IncidentKind.CONVERSATION_STOPPED: Cause(
        "A conversation that is sent in order is stopped",
        "One of its messages failed, is held, or was cancelled; later ones wait, other"
        " conversations do not. {Again}. Or {cancel}. After a message of it was cancelled, it can"
        " be restarted when all messages sent in it are acknowledged or cancelled. {Restart}.",
        "conversation",
    ),
    IncidentKind.ANSWER_REFUSED: Cause(
        "An answer of the partner to our message is refused",
        "The answer is invalid or breaks the agreement, so it does not acknowledge the message."
        " Sending the message again brings the same answer. Correct the agreement or make it"
        " lenient, or ask the partner to correct its answers. Then {again}. Or {cancel}.",
        "answer-refused",
    ),
    IncidentKind.ORDER_RESTARTED: Cause(
        "The partner restarted the numbers of a conversation",
        "Nothing was waiting, so the message was delivered. If you did not expect this, ask the"
        " partner why. Then {resolve}.",
        "conversation",
    ),
}
