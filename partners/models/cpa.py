"""The CPAs that agreements were made from, as they came."""

from django.db import models
from django.db.models.functions import Now

from .agreement import Agreement


class CpaDocument(models.Model):
    """One import of a CPA 2.0: its octets, kept as evidence of what was agreed on, also when the
    agreement is deleted. From the last one of an agreement this was made."""

    agreement = models.ForeignKey(
        Agreement, on_delete=models.SET_NULL, null=True, related_name="cpas"
    )
    tpa_id = models.CharField("CPAId", max_length=255)
    version = models.CharField(max_length=255, blank=True, default="")
    status = models.CharField(max_length=16)
    begins = models.DateTimeField()
    ends = models.DateTimeField()
    sha256 = models.CharField("SHA-256", max_length=64)
    content = models.BinaryField()
    imported_at = models.DateTimeField(db_default=Now(), editable=False)
    imported_by = models.CharField(max_length=150)

    class Meta:
        verbose_name = "CPA"
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.tpa_id} {self.sha256[:12]}"
