"""Our identity for partners that have no `our_uri` of their own."""

from dataclasses import dataclass

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from msh.protocol.uri import normalised

from .fields import uri_field


@dataclass(frozen=True, slots=True)
class Identity:
    """Our URI and our ErrorURI, as they stand in a RoutingHeader."""

    uri: str
    error_uri: str

    @classmethod
    def given(cls, msh_uri: str | None, error_uri: str | None) -> "Identity":
        """Return the identity of the row's two values, which are None without a row. Blank ones
        come from the settings."""
        if msh_uri:
            return cls(msh_uri, error_uri or msh_uri)
        uri = settings.MSH_URI
        return cls(uri, error_uri or settings.MSH_ERROR_URI or uri)

    def error_uri_for(self, our_uri: str) -> str:
        """Our ErrorURI on a pair in which we are `our_uri`: that, unless another was set."""
        return our_uri if self.error_uri == self.uri else self.error_uri


class OwnIdentity(models.Model):
    """The one row that overrides MSH_URI and MSH_ERROR_URI of the settings."""

    THE_ROW = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=THE_ROW, editable=False)
    msh_uri = uri_field("MSH URI", "Our SenderURI. Empty: the setting MSH_URI.", blank=True)
    error_uri = uri_field("ErrorURI", "Where partners send Errors. Empty: the MSH URI.", blank=True)

    class Meta:
        verbose_name = verbose_name_plural = "own identity"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="own_identity_is_one_row"),
        ]

    def __str__(self) -> str:
        return self.msh_uri or settings.MSH_URI

    def clean(self) -> None:
        """Refuse to rename the pairs that are in use under our present URI (D16)."""
        if normalised(str(self)) == normalised(our_identity().uri):
            return
        partners = apps.get_model("partners", "Partner")
        names = partners.objects.filter(our_uri="", in_use=True).order_by("name")
        if used_by := ", ".join(names.values_list("name", flat=True)):
            raise ValidationError(
                {
                    "msh_uri": f"Messages were exchanged under {our_identity().uri} with"
                    f" {used_by}. First set it as our_uri of these partners."
                }
            )


def our_identity() -> Identity:
    """Return our identity now: the row, else the settings. One small query; never cached."""
    row = OwnIdentity.objects.first()
    return Identity.given(row.msh_uri, row.error_uri) if row else Identity.given(None, None)
