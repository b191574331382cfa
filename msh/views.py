"""What the views of partners and of applications share."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.response import Response
from rest_framework.views import APIView


class BriefView(APIView):
    """Leaves nothing behind when its answer is gone.

    A request of REST framework refers to itself, and so do a view and a rendered response. Left like
    that, they keep the body until the collector of cycles comes; and that counts objects, not bytes:
    a hundred bodies of 25 MiB are few objects.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = super().dispatch(request, *args, **kwargs)
        self.request.parser_context.clear()
        del self.request, self.response
        if isinstance(answer, Response):
            answer.add_post_render_callback(lambda rendered: rendered.renderer_context.clear())
        return answer
