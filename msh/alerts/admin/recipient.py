"""Recipients of alerts about incidents: by severity, partner and role, with quiet hours and
escalation."""

from collections.abc import Iterator, Sequence

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin
from msh.admin.framework.pages import Table
from msh.admin.framework.signing import show_new_secret
from msh.admin.setup.partner import kept_with
from msh.alerts.flows.channels import send_test_call
from msh.alerts.models import ALL_DAYS, AlertRecipient, Channel, OperatorNotice
from msh.alerts.rules.quiet import quiet_until
from msh.flows.errors import NotPossible

from .recipient_form import DAYS, RecipientForm

TEST_PERMISSIONS = ("msh.view_alertrecipient", "msh.change_alertrecipient")
_FAILING = Q(given_up=False) & ~Q(error="")
_HELD = Q(given_up=False, held=True)


@kept_with.register
def recipients_of(partners: Sequence[int]) -> Iterator[str]:
    """They stay with their partners: without any they would be called about all of them."""
    for recipient in AlertRecipient.objects.filter(partners__in=partners).distinct():
        yield f"Alert recipient {recipient}"


@admin.register(AlertRecipient)
class RecipientAdmin(AuditedAdmin):
    form = RecipientForm
    list_display = ("name", "how", "whom", "about", "turn", "now", "last")
    sortable_by = ()
    search_fields = ("name",)
    list_before_template = "admin/msh/setup/recipients.html"
    change_form_outer_before_template = "admin/msh/setup/recipient_actions.html"
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("How", {"fields": ("channel", "addresses", "role", "url", "key", "signing")}),
        ("Which incidents", {"fields": ("at_least", "partners", "on_end")}),
        ("Escalation", {"fields": (("step", "wait"),)}),
        (
            "Quiet hours",
            {
                "fields": (
                    ("quiet_from", "quiet_until"),
                    "quiet_days",
                    "quiet_all_day",
                    ("time_zone", "critical_through"),
                )
            },
        ),
    )

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(self.test)
        urls: list[URLPattern] = super().get_urls()
        return [path("<int:object_id>/test/", page, name="msh_alertrecipient_test"), *urls]

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRecipient]:
        rows: QuerySet[AlertRecipient] = super().get_queryset(request)
        return rows.select_related("role").prefetch_related("partners")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        extra = {
            **(extra_context or {}),
            "settings_mail": settings.MSH_OPERATORS_EMAIL,
            "settings_webhook": bool(settings.MSH_OPERATORS_WEBHOOK),
        }
        response: HttpResponse = super().changelist_view(request, extra)
        return response

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        may_test = request.user.has_perms(TEST_PERMISSIONS)
        extra = {**(extra_context or {}), "may_test": may_test}
        response: HttpResponse = super().change_view(request, object_id, form_url, extra)
        return response

    def test(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """GET describes the test call, POST sends it."""
        if not request.user.has_perms(TEST_PERMISSIONS):
            raise PermissionDenied
        recipient = self.get_queryset(request).filter(pk=object_id).first()
        if recipient is None:
            raise Http404(f"The recipient {object_id} does not exist.")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test call to {recipient}",
            "opts": self.opts,
            "recipient": recipient,
            "whom": self.whom(recipient),
            "back": markup.page_url(recipient),
            "tables": [_answer(recipient)] if request.method == "POST" else [],
        }
        return TemplateResponse(request, "admin/msh/setup/test_call.html", context)

    def save_model(
        self, request: HttpRequest, obj: AlertRecipient, form: RecipientForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        show_new_secret(request, obj)

    @display(description="Channel")
    def how(self, recipient: AlertRecipient) -> str:
        shown: str = recipient.get_channel_display()
        return shown if recipient.enabled else format_html("{} {}", shown, markup.badge("off"))

    @display(description="Recipient")
    def whom(self, recipient: AlertRecipient) -> str:
        if recipient.channel != Channel.EMAIL:
            return recipient.host or "https://events.pagerduty.com"
        role = f"everyone with the role {recipient.role}" if recipient.role else ""
        return "; ".join(one for one in (recipient.addresses, role) if one)

    @display(description="About")
    def about(self, recipient: AlertRecipient) -> str:
        names = [str(partner) for partner in recipient.partners.all()]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        severity = recipient.get_at_least_display()
        note = '<div>{}<div class="msh-note">{}</div></div>'
        return format_html(note, severity, markup.in_words(shown or "all partners"))

    @display(description="When")
    def turn(self, recipient: AlertRecipient) -> str:
        when = "at once" if recipient.step == 1 else f"at step {recipient.step}"
        return f"{when}, next after {recipient.wait} min" if recipient.wait else when

    @display(description="Quiet hours")
    def now(self, recipient: AlertRecipient) -> str:
        quiet = recipient.quiet
        if quiet is None:
            return "none"
        until = quiet_until(quiet, timezone.now())
        shown = _quiet_text(recipient)
        if until is None:
            return shown
        badge = markup.badge("quiet now", "warning")
        return format_html('<div>{} {}<div class="msh-note">until {}</div></div>',
                           shown, badge, markup.time_of(until))  # fmt: skip

    @display(description="Last call")
    def last(self, recipient: AlertRecipient) -> str:
        """Return what was sent last, and what could not be sent since."""
        calls = OperatorNotice.objects.filter(to=recipient.name, channel=recipient.channel)
        sent = calls.filter(sent_at__isnull=False).order_by("-sent_at").first()
        unsent = calls.filter(sent_at=None).aggregate(
            failing=Count("pk", filter=_FAILING), held=Count("pk", filter=_HELD)
        )
        parts: list[object] = [markup.time_of(sent.sent_at) if sent else "none yet"]
        if unsent["failing"]:
            parts.append(markup.badge(f"{unsent['failing']} not sent", "danger"))
        if unsent["held"]:
            parts.append(markup.badge(f"{unsent['held']} held back", "info"))
        return format_html("{} " * len(parts), *parts)


def _quiet_text(recipient: AlertRecipient) -> str:
    parts = []
    if recipient.quiet_from and recipient.quiet_until:
        span = f"{recipient.quiet_from:%H:%M} to {recipient.quiet_until:%H:%M}"
        days = "" if recipient.quiet_days == ALL_DAYS else f" from {_names(recipient.quiet_days)}"
        parts.append(span + days)
    if recipient.quiet_all_day:
        parts.append(f"all {_names(recipient.quiet_all_day)}")
    through = "" if recipient.critical_through else ", critical too"
    return f"{', '.join(parts)} ({recipient.time_zone}){through}"


def _names(days: str) -> str:
    return ", ".join(DAYS[day] for day in days)


def _answer(recipient: AlertRecipient) -> Table:
    try:
        went, said = ("sent", "success"), send_test_call(recipient)
    except NotPossible as problem:
        went, said = ("not sent", "danger"), str(problem)
    row = (markup.badge(*went), markup.verbatim(said))
    return Table("Result", ("Call", "What the channel answered"), [row], "")
