from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request


class OneAnswer(DefaultContentNegotiation):
    """Each address answers in the one type that it has, whatever `Accept` says: to a caller that
    knows no other, bytes of a payload or a problem document are worth more than a 406
    (RFC 9110, 12.5.1 leaves it to us).
    """

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type
