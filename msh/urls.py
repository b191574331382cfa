from django.contrib import admin
from django.urls import path

from msh import health

# /ebxml/ is not here: msh.endpoint.EndpointApplication takes it before Django does.
urlpatterns = [
    path("admin/", admin.site.urls),
    path("health/live", health.live),
    path("health/ready", health.ready),
]
