from django.contrib import admin
from django.urls import path

from msh import health
from msh.endpoint import Endpoint

urlpatterns = [
    path("ebxml/", Endpoint.as_view()),
    path("ebxml/<slug:name>/", Endpoint.as_view()),
    path("admin/", admin.site.urls),
    path("health/live", health.live),
    path("health/ready", health.ready),
]
