"""Consumers: which messages are delivered, and to where."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join, strip_tags
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.admin.framework import curves, markup
from msh.admin.framework.audited import AuditedAdmin
from msh.admin.framework.signing import SigningForm, show_new_secret
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Consumer, ConsumerKind, Delivery
from msh.protocol.kinds import DeliveryState


class ConsumerForm(SigningForm):
    """`authorization` is stored encrypted and never shown."""

    authorization = forms.CharField(
        required=False,
        strip=True,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
        help_text="HTTP: Authorization header of our requests. Leave empty to keep it, enter none"
        " to remove it.",
    )

    class Meta:
        model = Consumer
        fields = (
            *("name", "enabled", "partner", "service_interface", "action", "kind", "path", "url"),
            *("history", "lease", "attempts", "retry_interval", "on_failure", "resolver"),
        )

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if shown := cleaned.get("authorization"):
            self.instance.show("" if shown == "none" else shown)
        return cleaned


_STATE = ("status", "waiting", "error_rate", "last_completed", "fetched")


@admin.register(Consumer)
class ConsumerAdmin(AuditedAdmin):
    form = ConsumerForm
    change_form_outer_before_template = "admin/msh/framework/charts.html"
    list_display = (*("name", "condition", "waiting", "error_rate", "takes", "destination"),)
    sortable_by = ("name", "condition", "waiting")
    readonly_fields = _STATE
    list_select_related = ("partner",)
    search_fields = ("name", "path", "url", "partner__name", "partner__display_name")
    search_help_text = "Name, destination or partner"
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("Messages", {"fields": ("partner", "service_interface", "action")}),
        ("Destination", {"fields": ("kind", "path", "url", "authorization", "signing")}),
        ("Attempts", {"fields": ("lease", "attempts", "retry_interval", "on_failure")}),
        ("Once and only once", {"fields": ("history", "resolver")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Consumer | None = None) -> Any:
        given = super().get_fieldsets(request, obj)
        state = [(None, {"fields": _STATE})] if obj else []
        return [*state, *given]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: object, **kwargs: object
    ) -> HttpResponse:
        if consumer := context.get("original"):
            context["charts"] = curves.charts(curves.About(consumers=(consumer.pk,)))
        return super().render_change_form(request, context, *args, **kwargs)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Read the error rates of all consumers of the page at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = list(listed.result_list)
        rates = curves.error_rates([row.pk for row in listed.result_list])
        for row in listed.result_list:
            row.rates = rates
        return listed

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        """With how each is doing, by indexes that have what is open, or the newest first."""
        of_it = Delivery.objects.filter(consumer=OuterRef("pk"), replay_of=None)
        done = of_it.filter(state=DeliveryState.COMPLETED)
        consumers: QuerySet[Consumer] = super().get_queryset(request)
        return consumers.annotate(
            undecided=_count(Delivery.objects.waiting_for_operator()),
            retried=_count(Delivery.objects.filter(state=DeliveryState.FAILED)),
            newest=Subquery(of_it.order_by("-message_id").values("state")[:1]),
            completed_at=Subquery(done.order_by("-message_id").values("ended_at")[:1]),
        )

    @admin.display(description="state")
    def status(self, consumer: Any) -> str:
        if not consumer.enabled:
            return markup.badge("off", "warning")
        if consumer.undecided:
            return markup.badge("needs a decision", "danger")
        if consumer.retried:
            return markup.badge("failing", "warning")
        if consumer.newest == DeliveryState.REJECTED:
            return markup.badge("rejects", "warning")
        silent = consumer.kind == ConsumerKind.PULL and not consumer.fetched_at
        return markup.badge("never fetched", "warning") if silent else markup.badge("ok", "success")

    @admin.display(description="state", ordering="completed_at")
    def condition(self, consumer: Any) -> str:
        """In the list: the state, and when it last completed a message."""
        state, completed = self.status(consumer), self.last_completed(consumer)
        if not consumer.completed_at:
            return state
        return format_html('{}<div class="msh-note">completed {}</div>', state, completed)

    @admin.display(description="open deliveries", ordering=F("undecided") + F("retried"))
    def waiting(self, consumer: Any) -> str:
        """Each leads to the deliveries. What was rejected is not open, but is no success either."""
        of_it = {"consumer__id__exact": consumer.pk}
        lists = {"undecided": {"is": "undecided"}, "retried": {"state__exact": "failed"}}
        shown = [
            (markup.list_url(Delivery, **lists[name], **of_it), f"{count} {name}")
            for name in lists
            if (count := getattr(consumer, name))
        ]
        if consumer.newest == DeliveryState.REJECTED:
            rejected = markup.list_url(Delivery, state__exact=consumer.newest, **of_it)
            shown.append((rejected, "the last one was rejected"))
        return format_html_join(", ", '<a href="{}" class="text-link">{}</a>', shown) or markup.DASH

    @admin.display(description="error rate")
    def error_rate(self, consumer: Any) -> str:
        """The share of attempts that failed, were rejected or are in doubt."""
        listed = getattr(consumer, "rates", None)
        rates = curves.error_rates([consumer.pk]) if listed is None else listed
        rate = rates.get(consumer.pk, curves.ErrorRate())
        if not rate.attempts_of_day:
            return markup.DASH
        hour = f"{_rate(rate.failed, rate.attempts)}, last hour"
        day = f"{_rate(rate.failed_of_day, rate.attempts_of_day)}, 24 hours"
        shown = '<div class="msh-time">{}<div class="msh-note">{}</div></div>'
        return format_html(shown, hour, day)

    @admin.display(description="last completed")
    def last_completed(self, consumer: Any) -> str:
        return markup.ago(consumer.completed_at) if consumer.completed_at else markup.DASH

    @admin.display(description="takes")
    def takes(self, consumer: Consumer) -> str:
        partner = markup.link_to(consumer.partner) if consumer.partner else "any partner"
        service, action = consumer.service_interface, consumer.action
        what = f"{service or 'any service'} / {action or 'any action'}"
        shown = '{}<div class="msh-note msh-clipped">{}</div>'
        return format_html(
            shown, partner, markup.in_words(what if service or action else "any message")
        )

    @admin.display(description="destination")
    def destination(self, consumer: Consumer) -> str:
        """Where it is called, or when it last asked."""
        kind = consumer.get_kind_display().partition(":")[0]
        fetched = format_html("last fetched: {}", fetched_text(consumer))
        where = consumer.path or consumer.url or fetched
        shown = '{}<div class="msh-note msh-clip" title="{}">{}</div>'
        return format_html(shown, kind, strip_tags(where), where)

    @admin.display(description="last fetched")
    def fetched(self, consumer: Consumer) -> str:
        return fetched_text(consumer)

    def save_model(
        self, request: HttpRequest, obj: Consumer, form: ConsumerForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        show_new_secret(request, obj)
        wake_up(WakeUp.DELIVER)

    def has_delete_permission(self, request: HttpRequest, obj: Consumer | None = None) -> bool:
        """A consumer with deliveries cannot be deleted, only disabled."""
        used = obj is not None and obj.deliveries.exists()
        return not used and bool(super().has_delete_permission(request, obj))


def _count(deliveries: QuerySet[Delivery]) -> Coalesce:
    of_it = deliveries.filter(consumer=OuterRef("pk")).order_by().values("consumer")
    return Coalesce(Subquery(of_it.annotate(count=Count("pk")).values("count")), 0)


def _rate(failed: int, attempts: int) -> str:
    return f"{curves.percent(failed, attempts)} of {attempts:,}" if attempts else "no attempts"


def fetched_text(consumer: Consumer) -> str:
    """When the application of a pull consumer last asked for messages."""
    if consumer.kind != ConsumerKind.PULL:
        return markup.DASH
    return markup.ago(consumer.fetched_at) if consumer.fetched_at else "never"
