from django.urls import path

from .api import BusinessKeysView

urlpatterns = [path("v1/business-keys", BusinessKeysView.as_view())]
