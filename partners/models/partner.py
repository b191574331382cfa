"""The partner: the other end of a pair."""

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Upper

from msh.protocol.admission import Limits
from msh.protocol.uri import URI_LIMIT, mail_address, normalised, origin
from msh.transport.job import Access
from partners import secrecy

from .dialects import Dialect
from .ebms2 import check_certificates
from .fields import check_client_certificate, check_proxy, check_visible, proxy_parts, uri_field
from .identity import our_identity
from .networks import check_networks, is_in, networks_of

_TOKEN = re.compile(r"[!-~]+")


class OutgoingKind(models.TextChoices):
    NONE = "none", "Nothing"
    BEARER = "bearer", "Bearer token"
    BASIC = "basic", "Basic: user and password"


class Partner(models.Model):
    """A remote MSH, and who we are to it. The pair is (`our_uri`, `uri`), normalised (D16, D56).

    Suspension and sequence numbers are not here: they belong to the pair's links.
    """

    name = models.SlugField(
        max_length=63,
        unique=True,
        error_messages={
            "invalid": "Letters a-z, digits, - and _ only. The display name can be in any script."
        },
        help_text="The partner's name in the API, in commands and in the setup document: letters"
        " a-z, digits, - and _.",
    )
    display_name = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        validators=[check_visible],
        help_text="The name that the console shows, in any script. Empty: the name.",
    )
    our_uri = uri_field(
        "our URI",
        "Who we are to this partner: our SenderURI, its ReceiverURI. Empty: the MSH's own URI."
        " Fixed once used.",
        blank=True,
    )
    uri = uri_field(
        "URI",
        "Who the partner is: its SenderURI and our ReceiverURI in the RoutingHeader."
        " Fixed once used.",
    )
    address = uri_field(
        "address",
        "The URL that we POST to. Empty: the URI. May change at any time.",
        blank=True,
    )
    error_address = uri_field(
        "error address",
        "Where Errors to the partner are sent. Empty: the address. An ErrorURI in a message is"
        " never used.",
        blank=True,
    )
    allowed_networks = models.TextField(
        blank=True,
        validators=[check_networks],
        help_text="Requests of the partner are accepted from these networks, such as 192.0.2.0/24."
        " Empty: any.",
    )
    outgoing_kind = models.CharField(
        "our credential",
        max_length=6,
        choices=OutgoingKind.choices,
        default=OutgoingKind.NONE,
        help_text="How we authenticate to this partner.",
    )
    outgoing_secret = models.TextField(blank=True, default="", editable=False)
    ca_certificates = models.TextField(
        "CA certificates",
        blank=True,
        default="",
        db_default="",
        validators=[check_certificates],
        help_text="Certificates in PEM, one after another: the authorities, one of which must have"
        " issued the certificate of the partner's server, or that certificate itself. Empty: those"
        " of MSH_CA_BUNDLE, or of the system.",
    )
    client_certificate = models.CharField(
        "client certificate",
        max_length=100,
        blank=True,
        default="",
        db_default="",
        validators=[check_client_certificate],
        help_text="The name of the certificate of ours that the partner's server is shown: of NAME,"
        " the file NAME.pem in the folder MSH_CLIENT_CERTIFICATES. Empty: that of"
        " MSH_CLIENT_CERTIFICATE.",
    )
    http_proxy = models.CharField(
        "HTTP proxy",
        max_length=300,
        blank=True,
        default="",
        db_default="",
        validators=[check_proxy],
        help_text="The proxy through which we reach the partner, http://host:port or"
        " http://user:password@host:port. The password is stored encrypted and never shown again;"
        " it stays while the rest does.",
    )
    http_proxy_secret = models.TextField(blank=True, default="", db_default="", editable=False)
    resume_on_late_ack = models.BooleanField(
        "resume on late Ack",
        default=False,
        db_default=False,
        help_text="If an Acknowledgement arrives after all retries, sending resumes automatically."
        " Otherwise an operator must resume it.",
    )
    probe_interval = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Seconds between probes of a suspended partner that did not answer. A probe is"
        " one more copy of a message; its answer resumes sending. 0: with ebMS 2.0 the"
        " RetryInterval, at least 60 s; else no probes, an operator must resume.",
    )
    never_probe = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A suspended partner is not probed, whatever the interval is: an operator must"
        " resume.",
    )
    rate_limit = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="New reliable messages accepted from the partner per minute. If the partner"
        " sends more, it is asked to wait (TransientError). 0: no limit.",
    )
    undelivered_limit = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="How many messages from the partner may wait for their consumer. If there are"
        " more, the partner is asked to wait. 0: no limit.",
    )
    undelivered_bytes_limit = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="How many payload bytes from the partner may wait for their consumer. If there"
        " are more, the partner is asked to wait. 0: no limit.",
    )
    accepts = models.BooleanField(
        "accept submissions",
        default=True,
        db_default=True,
        help_text="Off: messages that applications submit for this partner are refused. Queued"
        " messages are still sent.",
    )
    delivers = models.BooleanField(
        "deliver to consumers",
        default=True,
        db_default=True,
        help_text="Off: messages from this partner are stored and acknowledged, but not delivered.",
    )
    contact = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="Who operates the partner's MSH.",
    )
    phone = models.CharField(max_length=200, blank=True, default="", db_default="")
    notes = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="Anything that helps on call: hours, e-mail, arrangements.",
    )
    in_use = models.BooleanField(default=False, db_default=False, editable=False)
    """Set with the first message: from then on the pair keeps its name."""
    our_uri_normalised = models.CharField(max_length=URI_LIMIT, editable=False, blank=True)
    uri_normalised = models.CharField(max_length=URI_LIMIT, editable=False, blank=True)

    known: "Iterable[Partner] | None" = None
    """The others with this URI, if who checks it has read them."""
    default_uri = ""
    """Our URI on pairs that have no other, where it was read with the row."""
    credential_id: int | None = None
    """The credential by which it was found, if it was."""
    as_read = ""
    """The versions of the rows that it was read from, as text."""

    class Meta:
        ordering = ["name"]
        permissions = [
            ("switch_partner", "Can switch submissions and deliveries on and off"),
        ]
        indexes = [
            # Whose an address is, too, however it is written.
            models.Index(Upper("address"), name="partner_by_address"),
            models.Index(fields=["uri_normalised"], name="partner_by_uri"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["our_uri_normalised", "uri_normalised"],
                name="partner_pair",
                violation_error_message="Another partner has the same pair of our URI and its URI.",
            ),
            models.CheckConstraint(
                condition=Q(outgoing_kind="none", outgoing_secret="")
                | (~Q(outgoing_kind="none") & ~Q(outgoing_secret="")),
                name="partner_secret_iff_shown",
                violation_error_message="Enter a token, or user:password.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.display_name} ({self.name})" if self.display_name else self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        self._normalise()
        if (fields := kwargs.get("update_fields")) is not None:
            kwargs["update_fields"] = {*fields, "our_uri_normalised", "uri_normalised"}
        super().save(*args, **kwargs)

    def clean(self) -> None:
        self._normalise()
        self._refuse_renamed_pair()
        self._refuse_pair_under_default()
        self._refuse_secret_elsewhere()
        if proxy_parts(self.http_proxy).password:
            raise ValidationError({"http_proxy": "Its password is not kept in clear."})
        by_mail = mail_address(self.destination) or mail_address(self.error_destination)
        if by_mail and self.outgoing_kind == OutgoingKind.BEARER:
            raise ValidationError("A token cannot be used by mail: enter user:password instead.")

    @property
    def our_uri_or_default(self) -> str:
        """Our URI for this partner, as the RoutingHeader has it."""
        return self.our_uri or self.default_uri or our_identity().uri

    @property
    def destination(self) -> str:
        """The address to which Normal messages and Acknowledgements are transmitted."""
        return self.address or self.uri

    @property
    def is_reached_by_mail(self) -> bool:
        return self.destination.startswith("mailto:")

    @property
    def error_destination(self) -> str:
        """The address to which Error Messages are transmitted (D34)."""
        return self.error_address or self.destination

    @property
    def limits(self) -> Limits:
        return Limits(self.rate_limit, self.undelivered_limit, self.undelivered_bytes_limit)

    def is_pair(self, sender_uri: str, receiver_uri: str) -> bool:
        """Whether a RoutingHeader of a message from this partner names it and us (D16, D34)."""
        theirs = normalised(sender_uri) == self.uri_normalised
        return theirs and normalised(receiver_uri) == normalised(self.our_uri_or_default)

    def admits(self, address: str) -> bool:
        """Whether requests of this partner may come from the IP address `address`."""
        networks = networks_of(self.allowed_networks)
        return not networks or is_in(address, networks)

    def is_shown_by(self, address: str) -> bool:
        """Whether that address alone shows that it is this partner, as over mail.

        A network as wide as half of all addresses shows nothing.
        """
        narrow = tuple(one for one in networks_of(self.allowed_networks) if one.prefixlen > 1)
        return is_in(address, narrow)

    def show(self, kind: OutgoingKind, secret: str = "") -> None:
        """Set what we show this partner: a token, or "user:password" for Basic.

        Refuses with ValidationError what cannot stand in an Authorization header.
        """
        if kind == OutgoingKind.BEARER and not _TOKEN.fullmatch(secret):
            raise ValidationError(
                "A token consists of printable ASCII characters without white space."
            )
        if kind == OutgoingKind.BASIC and not secret.partition(":")[1]:
            raise ValidationError("Enter user:password.")
        self.outgoing_kind = kind
        self.outgoing_secret = secrecy.encrypt(secret) if kind != OutgoingKind.NONE else ""

    def authorization(self) -> str:
        """The Authorization header of our requests to this partner; "" for none.

        Raises SecretUnreadableError if the key is gone from MSH_FERNET_KEYS.
        """
        if self.outgoing_kind == OutgoingKind.NONE:
            return ""
        secret = secrecy.decrypt(self.outgoing_secret)
        if self.outgoing_kind == OutgoingKind.BASIC:
            return f"Basic {b64encode(secret.encode()).decode()}"
        return f"Bearer {secret}"

    def proxied_by(self, proxy: str) -> dict[str, str]:
        """The fields of our proxy, by name, if it is to be this one, a password in it included.
        Without one the password stays if all else does. Raises ValidationError."""
        check_proxy(proxy)
        parts = proxy_parts(proxy)
        kept = self.http_proxy_secret if parts.address == self.http_proxy else ""
        if parts.password and parts.password != self._proxy_password(kept):
            kept = secrecy.encrypt(parts.password)
        return {"http_proxy": parts.address, "http_proxy_secret": kept}

    def access(self) -> Access:
        """How it is reached. Raises SecretUnreadableError as `authorization`."""
        proxy = self.http_proxy
        if self.http_proxy_secret:
            proxy = proxy.replace("@", f":{secrecy.decrypt(self.http_proxy_secret)}@", 1)
        return Access(self.ca_certificates, proxy, self.client_certificate)

    @staticmethod
    def _proxy_password(kept: str) -> str:
        try:
            return secrecy.decrypt(kept) if kept else ""
        except secrecy.SecretUnreadableError:
            return ""

    def _normalise(self) -> None:
        self.our_uri_normalised = normalised(self.our_uri) if self.our_uri else ""
        self.uri_normalised = normalised(self.uri)

    def _refuse_renamed_pair(self) -> None:
        if self._state.adding:
            return
        before = Partner.objects.filter(pk=self.pk, in_use=True).first()
        if before is None:
            return
        fixed = (
            "Cannot be changed: messages were exchanged under it. If the host has moved, change the"
            " address."
        )
        if before.uri_normalised != self.uri_normalised:
            raise ValidationError({"uri": fixed})
        if normalised(before.our_uri_or_default) != normalised(self.our_uri_or_default):
            raise ValidationError({"our_uri": fixed})

    def _refuse_secret_elsewhere(self) -> None:
        """A user who may change an address must not learn the secret by having it sent there."""
        if self._state.adding:
            return
        before = Partner.objects.filter(pk=self.pk).first()
        if before is None or not self.outgoing_secret:
            return
        if self.outgoing_secret != before.outgoing_secret:
            return
        if self.http_proxy and self.http_proxy != before.http_proxy:
            proxied = "The HTTP proxy has changed: enter our credential again, or remove it."
            raise ValidationError({"http_proxy": proxied})
        if self.shown_to - before.shown_to:
            moved = "Host, port or scheme has changed: enter our credential again, or remove it."
            raise ValidationError({"uri" if self.address == before.address else "address": moved})

    @property
    def shown_to(self) -> set[str]:
        return {origin(self.destination), origin(self.error_destination)}

    def _refuse_pair_under_default(self) -> None:
        """Net for what the unique constraint cannot see: blank, and the default written out."""
        others = self.known
        if others is None:
            others = Partner.objects.filter(uri_normalised=self.uri_normalised).exclude(pk=self.pk)
        ours = normalised(self.our_uri_or_default)
        for other in others:
            if normalised(other.our_uri_or_default) == ours:
                raise ValidationError(f"Partner {other} has the same pair of our URI and its URI.")


def known_by_network(dialect: str = Dialect.EBMS2) -> models.QuerySet[Partner]:
    """Return the partners without credential, which are known only by the network of their requests
    (EB-190)."""
    partners = Partner.objects.filter(credentials=None, agreements__dialect=dialect)
    return partners.exclude(allowed_networks="").distinct()
