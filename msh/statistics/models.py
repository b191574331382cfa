"""Counts for each partner and agreement by hour, day and week; for the whole MSH, each partner and
each consumer by the minute: counted once from the history and the attempts, so that no page counts
millions. `msh.statistics.store` alone writes it."""

from django.db import models
from django.db.models import Q


class Unit(models.TextChoices):
    """How long the time is that a row counts."""

    MINUTE = "minute"
    """For the charts of the last hours, and of the whole MSH for /metrics."""
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    """From Monday on. Long times are summed from weeks: see `msh.statistics.store.span`."""


class Statistics(models.Model):
    """A minute, an hour, a day or a week of one agreement, in the time zone of the settings, from
    its beginning; without partner, agreement and consumer: of the whole MSH. Of a consumer there
    are minutes and hours only, without partner and agreement.

    `sent`: BestEffort, which nobody acknowledges. `failed`: messages that we gave up or cancelled.
    `rejected`: messages that an application refused. `delivery_failures`: attempts at a consumer.
    `delivered`: of a consumer only.
    """

    unit = models.CharField(max_length=6, choices=Unit)
    begins = models.DateTimeField()
    # Not checked, as in the history: what is counted is there, and stays as long as its partner.
    partner = models.ForeignKey(
        "partners.Partner",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    agreement = models.ForeignKey(
        "partners.Agreement",
        on_delete=models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    """None if the message was not stored. The agreement may have been deleted since."""
    consumer = models.ForeignKey(
        "Consumer",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    submitted = models.BigIntegerField(default=0, db_default=0)
    acknowledged = models.BigIntegerField(default=0, db_default=0)
    sent = models.BigIntegerField(default=0, db_default=0)
    received = models.BigIntegerField(default=0, db_default=0)
    bytes_out = models.BigIntegerField(default=0, db_default=0)
    """Payloads as they were submitted, of what was acknowledged or sent."""
    bytes_in = models.BigIntegerField(default=0, db_default=0)
    """Payloads as the application gets them, of what was received."""
    retries = models.BigIntegerField(default=0, db_default=0)
    duplicates = models.BigIntegerField(default=0, db_default=0)
    failed = models.BigIntegerField(default=0, db_default=0)
    delivered = models.BigIntegerField(default=0, db_default=0)
    rejected = models.BigIntegerField(default=0, db_default=0)
    delivery_failures = models.BigIntegerField(default=0, db_default=0)
    in_doubt = models.BigIntegerField(default=0, db_default=0)
    waiting = models.BigIntegerField(null=True, blank=True)
    """Not counted but looked at in this minute, of the whole MSH, of a partner without agreement,
    and of a consumer: how many messages were queued to partners, or how many deliveries were open.
    No row: none, if the whole MSH has one of the minute; else nobody looked."""
    last_acknowledged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "msh"
        default_permissions = ("view",)
        verbose_name_plural = "statistics"
        indexes = [models.Index(fields=["unit", "begins"], name="statistics_of_time")]
        constraints = [
            models.UniqueConstraint(
                fields=["partner", "agreement", "consumer", "unit", "begins"],
                nulls_distinct=False,
                name="statistics_once",
            ),
        ]

    def __str__(self) -> str:
        of = self.partner or self.consumer or "all partners"
        return f"{of}, {self.unit} of {self.begins:%Y-%m-%d %H:%M}"


class AcknowledgementTime(models.Model):
    """How many messages of a row of the statistics were acknowledged in a time of this bucket:
    see `msh.statistics.store.histogram`."""

    slot = models.ForeignKey(
        Statistics, on_delete=models.CASCADE, related_name="times", db_index=False
    )
    bucket = models.PositiveSmallIntegerField()
    number = models.BigIntegerField()

    class Meta:
        app_label = "msh"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["slot", "bucket"], name="acknowledgement_time_once"),
        ]

    def __str__(self) -> str:
        return f"{self.number} in bucket {self.bucket}"


class Suspension(models.Model):
    """A time during which nothing was sent to a partner, or is not since `began_at`."""

    partner = models.ForeignKey(
        "partners.Partner",
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "msh"
        default_permissions = ()
        indexes = [models.Index(fields=["partner", "began_at"], name="suspension_of_partner")]
        constraints = [
            models.UniqueConstraint(
                fields=["partner"], condition=Q(ended_at=None), name="suspension_open_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.partner} since {self.began_at:%Y-%m-%d %H:%M}"


class StatisticsProgress(models.Model):
    """One row, number 1. Everything up to the rows `history_id` and `attempt_id` is counted.

    `next_*` is the boundary up to which is counted next, taken at `next_at`; what is before it does
    not change any more when all transactions before `fence` have ended.
    """

    history_id = models.BigIntegerField(default=0)
    attempt_id = models.BigIntegerField(default=0)
    up_to = models.DateTimeField(null=True)
    next_history_id = models.BigIntegerField(default=0)
    next_attempt_id = models.BigIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    fence = models.BigIntegerField(null=True)

    class Meta:
        app_label = "msh"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.up_to:%Y-%m-%d %H:%M}" if self.up_to else "nothing yet"
