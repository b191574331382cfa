from django.urls import path

from .api import StatisticsView

urlpatterns = [path("v1/statistics", StatisticsView.as_view())]
