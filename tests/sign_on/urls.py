"""The addresses of an MSH with single sign-on, beside those without it."""

from msh.sign_on import urls as sign_on
from msh.urls import handler400, handler403, handler404, handler500
from msh.urls import urlpatterns as others

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [*sign_on.urlpatterns, *others]
