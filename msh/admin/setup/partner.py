"""Partners with their agreements and credentials, routes, and our own identity.

The credentials of a partner are generated and shown once. Ours are entered and never shown.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.admin import StackedInline, TabularInline
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.extension import ExtensionPoint
from msh.flows.operations.inspection.shared_address import shared_address
from msh.models import ApiToken, InboundLink, Incident, MaintenanceWindow, OutboundLink, Webhook
from msh.pem import certificates_of, described
from msh.store.operations.operator_actions import open_links
from partners.models import Agreement, Channel, Credential, OwnIdentity, Partner, Route
from partners.models.credential import CredentialKind
from partners.models.partner import OutgoingKind

_PASSWORD = re.compile(r":(?!//).*(?=@)")


class ProxyWidget(UnfoldAdminTextInputWidget):
    """A password that was typed is not in the page that refuses something else."""

    def format_value(self, value: Any) -> str:
        return _PASSWORD.sub("", str(value or ""))


class PartnerForm(AuditedForm):
    secret = forms.CharField(
        label="Token, or user:password",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Our credential at the partner. Stored encrypted, never shown again. Leave empty"
        " to keep it.",
    )

    class Meta:
        model = Partner
        exclude: tuple[str, ...] = ()
        widgets = {
            "allowed_networks": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "notes": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "ca_certificates": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "http_proxy": ProxyWidget(),
        }
        # Django does not give the form those of the model.
        error_messages = {
            "name": Partner._meta.get_field("name").error_messages,  # noqa: SLF001  public
        }

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        kind = OutgoingKind(cleaned.get("outgoing_kind", OutgoingKind.NONE))
        stays = kind != OutgoingKind.NONE and "outgoing_kind" not in self.changed_data
        if not (stays and not cleaned.get("secret")):
            self._show(kind, cleaned.get("secret") or "")
        return cleaned

    def clean_http_proxy(self) -> str:
        fields = self.instance.proxied_by(self.cleaned_data["http_proxy"])
        self.instance.http_proxy_secret = fields["http_proxy_secret"]
        return str(fields["http_proxy"])

    def _show(self, kind: OutgoingKind, secret: str) -> None:
        try:
            self.instance.show(kind, secret)
        except ValidationError as problem:
            self.add_error("secret", problem)


DESTINATION, AUTHENTICATION = "destination", "authentication"
"""Sections of the page that advice leads to, as fragments of its URL."""


def _section(name: str, text: str) -> SafeString:
    """Has the focus after a link to it. A field would change with the next key that is pressed."""
    return format_html('<p id="{}" tabindex="-1">{}</p>', name, text)


kept_with: ExtensionPoint[Callable[[Sequence[int]], Iterable[str]]] = ExtensionPoint()
"""Names of rows of features for which the partners with these keys cannot be deleted."""
_ITS_OWN = (OutboundLink, InboundLink, MaintenanceWindow)


(_ONCE,) = (one for one in Agreement._meta.constraints if one.name == "agreement_once")  # noqa: SLF001  public


class AgreementFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    def clean(self) -> None:
        """Each agreement is compared with those that are stored; these are new together."""
        super().clean()
        kept = [one.cleaned_data for one in self.forms if not one.cleaned_data.get("DELETE")]
        dialects = {one["dialect"] for one in kept if one.get("dialect")}
        if len(dialects) > 1:
            raise ValidationError(
                "All agreements with a partner must have the same dialect, not"
                f" {sorted(dialects)}: add a second partner for the other dialect."
            )
        self._refuse_unseen()

    def _refuse_unseen(self) -> None:
        """Agreements that were added after the page was shown: their rows are not in it."""
        seen = {form.instance.pk for form in self.initial_forms}
        unseen = {one.tpa_id for one in self.get_queryset() if one.pk not in seen}
        for form in self.forms:
            given = form.cleaned_data
            if given.get("tpa_id") in unseen and not given.get("DELETE"):
                form.add_error("tpa_id", str(_ONCE.get_violation_error_message()))

    def save_existing_objects(self, commit: bool = True) -> list[Agreement]:
        """Rows are written one after the other: a TPAId that another row is to have is free before
        the first, also if it is swapped, or its agreement removed."""
        for form in self.initial_forms:
            if commit and ("tpa_id" in form.changed_data or form in self.deleted_forms):
                Agreement.objects.filter(pk=form.instance.pk).update(tpa_id=uuid4().hex)
        saved: list[Agreement] = super().save_existing_objects(commit)
        return saved


class AgreementInline(StackedInline):
    """The console's script updates `horizon` while its fields are edited."""

    model = Agreement
    formset = AgreementFormSet
    extra = 0
    readonly_fields = ("horizon",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "dialect",
                    "tpa_id",
                    ("our_party", "our_party_context"),
                    ("their_party", "their_party_context"),
                    "semantics",
                    "ends",
                )
            },
        ),
        (
            "Retries",
            {
                "fields": (
                    ("timeout", "retries"),
                    ("retry_interval", "early_warning"),
                    "horizon",
                )
            },
        ),
        (
            "Transient errors and resets",
            {
                "classes": ("collapse",),
                "fields": (
                    ("transient_count_limit", "transient_time_limit"),
                    ("transient_wait_limit", "on_unexpected_first"),
                ),
            },
        ),
        (
            "OASIS ebMS 2.0: roles and Acknowledgments",
            {
                "classes": ("collapse",),
                "fields": (
                    ("our_role", "their_role"),
                    ("service_type", "soap_action"),
                    ("ack", "ack_actor"),
                    ("eliminates", "sync_reply"),
                    ("lenient", "check_ref_to"),
                    "refuses_status",
                ),
            },
        ),
        (
            "OASIS ebMS 2.0: life, order and failures",
            {
                "classes": ("collapse",),
                "fields": (
                    ("time_to_live", "persist_duration"),
                    ("window", "ordered"),
                    ("on_failure", "clock_tolerance"),
                    "retryable_codes",
                ),
            },
        ),
        (
            "OASIS ebMS 2.0: signatures",
            {
                "classes": ("collapse",),
                "fields": (
                    ("signed", "ack_signed"),
                    "signature_method",
                    "certificate",
                    ("allow_sha1", "keep_expired"),
                ),
            },
        ),
        (
            "OASIS ebMS 2.0: encryption",
            {
                "classes": ("collapse",),
                "fields": (
                    ("encrypted", "allow_rsa_1_5"),
                    "encryption_method",
                    "encryption_certificate",
                ),
            },
        ),
    )

    @admin.display(description="Retry horizon")
    def horizon(self, agreement: Agreement) -> str:
        return format_html(
            "Without an Acknowledgement, the link is suspended <output data-horizon>{} s</output>"
            " after the first attempt (Timeout + Retries * RetryInterval).",
            agreement.terms().retry_horizon,
        )


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    certificate = forms.CharField(
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Of a client certificate: it in PEM, or its SHA-256.",
    )

    def has_changed(self) -> bool:
        """A new row is a new credential, even with the initial values of its fields."""
        adding = self.instance.pk is None
        return adding or super().has_changed()

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        given = str(cleaned.get("certificate") or "")
        if cleaned.get("kind") == CredentialKind.CERTIFICATE:
            self._certify(given)
        elif given:
            self.add_error("certificate", "Only a client certificate has one.")
        return cleaned

    def _certify(self, text: str) -> None:
        try:
            self.instance.certify(text)
        except ValidationError as problem:
            self.add_error("certificate", problem)
            return
        same = Credential.objects.filter(sha256=self.instance.sha256).select_related("partner")
        if (other := same.first()) is not None:
            whose = f"Partner {other.partner.name} has the same one: each needs its own."
            self.add_error("certificate", whose)


class CredentialInline(TabularInline):
    """A new credential is generated and shown once. To replace one, add another, then delete it."""

    model = Credential
    form = CredentialForm
    extra = 0
    fields = ("kind", "certificate", "label", "created")
    readonly_fields = ("created",)
    verbose_name = "credential of the partner"
    verbose_name_plural = "credentials of the partner"

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @admin.display(description="certificate")
    def certificate(self, credential: Credential) -> str:
        if credential.kind != CredentialKind.CERTIFICATE:
            return markup.DASH
        shown = [described(one) for one in certificates_of(credential.pem)]
        return ", ".join([*shown, f"SHA-256 {credential.sha256}"])


@admin.register(Partner)
class PartnerAdmin(AuditedAdmin):
    form = PartnerForm
    list_display = ("page", "to_it", "open_incidents", "address_of_it", "tpa_ids")
    list_display_links = None
    search_fields = (
        *("name", "display_name", "uri", "address", "contact"),
        *("agreements__tpa_id", "credentials__label"),
    )
    search_help_text = "Name, URI, address, contact, TPAId or label of a credential"
    inlines = (AgreementInline, CredentialInline)
    warn_unsaved_form = True
    fieldsets = (
        (None, {"fields": ("name", "display_name", "uri", "our_uri")}),
        ("Contact", {"fields": ("contact", "phone", "notes")}),
        (
            "Destination",
            {
                "fields": (
                    "address",
                    "error_address",
                    "ca_certificates",
                    "client_certificate",
                    "http_proxy",
                ),
                "description": _section(DESTINATION, "Where messages to the partner are sent."),
            },
        ),
        (
            "Our authentication at the partner",
            {
                "fields": ("outgoing_kind", "secret"),
                "description": _section(AUTHENTICATION, "Sent with each message to the partner."),
            },
        ),
        ("Allowed networks", {"fields": ("allowed_networks",)}),
        (
            "If it does not answer",
            {"fields": ("resume_on_late_ack", "probe_interval", "never_probe")},
        ),
        (
            "Limits",
            {"fields": ("rate_limit", "undelivered_limit", "undelivered_bytes_limit")},
        ),
    )

    def audited_rows(self, key: int | None) -> list[QuerySet[Model]]:
        agreements = Agreement.objects.filter(partner=key)
        channels = Channel.objects.filter(agreement__partner=key)
        credentials = Credential.objects.filter(partner=key)
        return [*super().audited_rows(key), agreements, channels, credentials]

    def entries(self, key: int) -> Q:
        """Also of agreements, channels and credentials that were removed."""
        of_partner = f" of {Partner.objects.get(pk=key).name}"
        kinds = [capfirst(str(one._meta.verbose_name)) for one in (Agreement, Channel, Credential)]  # noqa: SLF001  public
        return super().entries(key) | Q(kind__in=kinds, name__endswith=of_partner)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Partner]:
        partners: QuerySet[Partner] = super().get_queryset(request)
        opened = Incident.objects.filter(partner=OuterRef("pk"), resolved_at=None).order_by()
        counted = opened.values("partner").annotate(count=Count("pk")).values("count")
        joined = partners.select_related("outbound_link").prefetch_related("agreements")
        return joined.annotate(open_count=Coalesce(Subquery(counted), 0))

    @admin.display(description="partner", ordering="name")
    def page(self, partner: Partner) -> str:
        return markup.link_to(partner)

    @admin.display(description="sending")
    def to_it(self, partner: Partner) -> str:
        link = getattr(partner, "outbound_link", None)
        return markup.state_badge(link) if link else markup.badge("new")

    @admin.display(description="open incidents")
    def open_incidents(self, partner: Any) -> str:
        if not partner.open_count:
            return markup.DASH
        where = markup.list_url(Incident, partner__id__exact=partner.pk, **{"is": "open"})
        shown = '<a href="{}" class="text-link">{}</a>'
        return format_html(shown, where, partner.open_count)

    @admin.display(description="address")
    def address_of_it(self, partner: Partner) -> str:
        """Where messages go; and its URI, if that differs."""
        shown = markup.verbatim(partner.destination)
        if partner.destination == partner.uri:
            return shown
        note = '<div>{}<div class="msh-note">{}</div></div>'
        return format_html(note, shown, markup.verbatim(partner.uri))

    @admin.display(description="agreements")
    def tpa_ids(self, partner: Partner) -> str:
        return ", ".join(agreement.tpa_id for agreement in partner.agreements.all())

    def save_model(
        self, request: HttpRequest, obj: Partner, form: PartnerForm, change: bool
    ) -> None:
        """Creates its links too, so that they can be suspended or held before the first message."""
        super().save_model(request, obj, form, change)
        if {"address", "uri"} & {*form.changed_data} and (shared := shared_address(obj)):
            messages.warning(request, shared)
        open_links(obj)

    def get_deleted_objects(
        self, objs: Iterable[Model], request: HttpRequest
    ) -> tuple[object, ...]:
        """Unused links and its windows are deleted with a partner, without a permission of their
        own."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        links = {str(model._meta.verbose_name) for model in _ITS_OWN}  # noqa: SLF001
        keys = [one.pk for one in objs]
        # What has lost its last partner would be bound to none, and meet all of them.
        bound = {"API token": ApiToken.objects, "Webhook": Webhook.objects}
        kept = [
            f"{what} {row}"
            for what, rows in bound.items()
            for row in rows.filter(partners__in=keys).distinct()
        ]
        kept += [row for rows in kept_with for row in rows(keys)]
        return deleted, counts, needed - links, [*protected, *kept]

    def save_formset(
        self, request: HttpRequest, form: PartnerForm, formset: Any, change: bool
    ) -> None:
        if formset.model is Credential:
            for credential in formset.save(commit=False):
                if credential.kind != CredentialKind.CERTIFICATE:
                    self._generate(request, credential)
        formset.save()

    def _generate(self, request: HttpRequest, credential: Credential) -> None:
        secret = credential.generate()
        messages.warning(
            request,
            f"{credential.get_kind_display()} for {credential.partner}: {secret}"
            " Copy it for the partner now: it is not shown again.",
        )


@admin.register(Route)
class RouteAdmin(AuditedAdmin):
    """Parties whose messages are forwarded to another MSH."""

    fields = ("to_party", "to_party_context", "partner", "mode")
    list_display = ("to_party", "to_party_context", "partner", "mode")
    list_select_related = ("partner",)
    search_fields = ("to_party", "partner__name")


@admin.register(OwnIdentity)
class OwnIdentityAdmin(AuditedAdmin):
    """Our identity, if it differs from the settings."""

    fields = ("msh_uri", "error_uri")
    list_display = ("__str__", "error_uri")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and not OwnIdentity.objects.exists()
