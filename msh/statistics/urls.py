from django.contrib import admin
from django.urls import path

from .admin.page import statistics
from .admin.report import report

urlpatterns = [
    path("admin/statistics/", admin.site.admin_view(statistics), name="statistics"),
    path(
        "admin/statistics/<int:key>/<int:year>/<int:month>/",
        admin.site.admin_view(report),
        name="statistics_report",
    ),
]
