from tests.admin.conftest import administrator, operator, supervisor, viewer
from tests.api.conftest import token

__all__ = ["administrator", "operator", "supervisor", "token", "viewer"]
