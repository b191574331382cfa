from django.contrib import admin
from django.urls import include, path

from msh import health, metrics
from msh.admin.framework.runbooks import runbook
from msh.admin.framework.search import search
from msh.admin.framework.time_zone import time_zone
from msh.extension import modules_of_features

admin.autodiscover()

from msh.admin.dashboard.wall import wall  # noqa: E402  needs the pages of links
from msh.admin.partner.page import partner_page  # noqa: E402  as above
from msh.admin.setup.certificates import certificates_page  # noqa: E402  as above
from msh.admin.setup.sessions import sessions  # noqa: E402  as above

# /ebxml/ is not here: msh.endpoint.EndpointApplication takes it before Django does.
urlpatterns = [
    *(pattern for urls in modules_of_features("urls") for pattern in urls.urlpatterns),
    path("admin/runbooks/<slug:name>/", admin.site.admin_view(runbook), name="runbook"),
    path("admin/search-all/", admin.site.admin_view(search), name="search"),
    path("admin/time-zone/", admin.site.admin_view(time_zone), name="time_zone"),
    path("admin/wall/", admin.site.admin_view(wall), name="wall"),
    path("admin/sessions/", admin.site.admin_view(sessions), name="sessions"),
    path("admin/certificates/", admin.site.admin_view(certificates_page), name="certificates"),
    path("admin/partner/<int:key>/", admin.site.admin_view(partner_page), name="partner_page"),
    path("admin/", admin.site.urls),
    path("api/", include("msh.api_urls")),
    path("health/live", health.live),
    path("health/ready", health.ready, name="ready"),
    path("metrics", metrics.page),
]


handler400 = "msh.admin.framework.error_pages.bad_request"
handler403 = "msh.admin.framework.error_pages.forbidden"
handler404 = "msh.admin.framework.error_pages.not_found"
handler500 = "msh.admin.framework.error_pages.server_error"
