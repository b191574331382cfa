from django.contrib import admin
from django.urls import path

from msh import health

# /ebxml/ is not here: msh.endpoint.EndpointMiddleware takes it before all other middleware.
urlpatterns = [
    path("admin/", admin.site.urls),
    path("health/live", health.live),
    path("health/ready", health.ready),
]
