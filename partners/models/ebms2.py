"""The settings that only an agreement of the dialect ebMS 2.0 has (EB-078 to EB-085)."""

from collections.abc import Sequence

from cryptography import x509
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models

from msh.pem import KeyUnusable, certificates_of, enciphering
from msh.protocol.ebms.signature import ALGORITHMS
from msh.protocol.flight.gate import WINDOW
from msh.protocol.flight.value import OnSilence
from msh.signing_keys import why_unfit

from .fields import bounded_field

WEEK = 7 * 86_400  # seconds

BOUNDS = {
    "clock_tolerance": (0, 86_400),
    "persist_duration": (0, 104 * WEEK),
    "time_to_live": (0, 104 * WEEK),
    "window": (1, 1_000),
}

CODE_LIMIT = 64  # characters
CERTIFICATE_LIMIT = 65_536  # characters of all certificates of an agreement

WAIVABLE = (
    *("EB-022", "EB-030", "EB-034", "EB-043", "EB-048", "EB-076", "EB-125", "EB-133"),
    *("EB-175", "EB-185"),
)
"""Requirements whose breach an agreement may let pass; docs/ebms2.md says what each of them is."""


class Presence(models.TextChoices):
    """Whether messages of an agreement have an element that asks for something (EB-043)."""

    ALWAYS = "always", "always"
    NEVER = "never", "never"
    PER_MESSAGE = "perMessage", "per message"


class AckActor(models.TextChoices):
    """The actor of our AckRequested (EB-044)."""

    TO_PARTY_MSH = "toPartyMSH", "toPartyMSH"
    NEXT_MSH = "nextMSH", "nextMSH"


class EncryptionMethod(models.TextChoices):
    """How the content of a payload is encrypted (EB-185)."""

    AES_256_GCM = "aes256-gcm", "AES-256-GCM"
    AES_192_GCM = "aes192-gcm", "AES-192-GCM"
    AES_128_GCM = "aes128-gcm", "AES-128-GCM"
    AES_256_CBC = "aes256-cbc", "AES-256-CBC"
    AES_192_CBC = "aes192-cbc", "AES-192-CBC"
    AES_128_CBC = "aes128-cbc", "AES-128-CBC"


class SignatureMethod(models.TextChoices):
    """What we sign with (EB-168): a key of RSA or of EC, and the hash of all digests."""

    RSA_SHA256 = "rsa-sha256", "RSA with SHA-256"
    RSA_SHA384 = "rsa-sha384", "RSA with SHA-384"
    RSA_SHA512 = "rsa-sha512", "RSA with SHA-512"
    ECDSA_SHA256 = "ecdsa-sha256", "ECDSA with SHA-256"
    ECDSA_SHA384 = "ecdsa-sha384", "ECDSA with SHA-384"
    ECDSA_SHA512 = "ecdsa-sha512", "ECDSA with SHA-512"
    RSA_SHA1 = "rsa-sha1", "RSA with SHA-1, which can be forged"


class SyncReply(models.TextChoices):
    """syncReplyMode of the CPA."""

    NONE = "none", "none"
    MSH_SIGNALS_ONLY = "mshSignalsOnly", "mshSignalsOnly"
    SIGNALS_ONLY = "signalsOnly", "signalsOnly"
    RESPONSE_ONLY = "responseOnly", "responseOnly"
    SIGNALS_AND_RESPONSE = "signalsAndResponse", "signalsAndResponse"


def check_lenient(rules: Sequence[str]) -> None:
    if unknown := sorted(set(rules) - set(WAIVABLE)):
        raise ValidationError(
            f"{', '.join(unknown)} cannot be waived. Known: {', '.join(WAIVABLE)}.",
            code="lenient",
        )


def check_certificates(pem: str) -> None:
    """Never repeats what was given: it may be a key."""
    if len(pem) > CERTIFICATE_LIMIT:
        text = f"At most {CERTIFICATE_LIMIT} characters."
        raise ValidationError(text, code="certificate")
    try:
        certificates_of(pem)
    except KeyUnusable as problem:
        raise ValidationError(str(problem), code="certificate") from None


def check_codes(codes: Sequence[str]) -> None:
    if any(code != code.strip() or not code for code in codes):
        raise ValidationError("A code is empty or has space around it.", code="retryable_codes")


def check_soap_action(text: str) -> None:
    if not text.isascii() or not text.isprintable() or '"' in text:
        raise ValidationError("Only printable ASCII characters, and no quotes.", code="soap_action")


def _role(verbose_name: str, help_text: str) -> "models.CharField[str, str]":
    return models.CharField(
        verbose_name, max_length=255, blank=True, default="", db_default="", help_text=help_text
    )


def _presence(verbose_name: str, help_text: str) -> "models.CharField[str, str]":
    default = Presence.PER_MESSAGE
    return models.CharField(
        verbose_name,
        max_length=10,
        choices=Presence,
        default=default,
        db_default=default.value,
        help_text=help_text,
    )


class Ebms2Settings(models.Model):
    our_role = _role("our Role", "Role of our party. Empty: none is written.")
    their_role = _role("their Role", "Role of their party. Empty: none is written.")
    service_type = _role("service type", "Type of the Service. Empty: the Service is a URI.")
    ack = _presence(
        "AckRequested",
        "perMessage: OnceAndOnlyOnce asks for an Acknowledgement, BestEffort does not.",
    )
    ack_actor = models.CharField(
        "actor of AckRequested",
        max_length=10,
        choices=AckActor,
        default=AckActor.TO_PARTY_MSH,
        db_default=AckActor.TO_PARTY_MSH.value,
        help_text="Which MSH is asked for the Acknowledgment: that of the To party, or the next"
        " one, as some hubs have it.",
    )
    eliminates = _presence(
        "DuplicateElimination",
        "perMessage: OnceAndOnlyOnce asks for it, BestEffort does not.",
    )
    time_to_live = bounded_field(
        "TimeToLive",
        0,
        BOUNDS["time_to_live"],
        "Seconds from the first copy of a message after which it fails if it is not"
        " acknowledged; never less than all retries take. 0: none.",
    )
    persist_duration = bounded_field(
        "PersistDuration",
        0,
        BOUNDS["persist_duration"],
        "Seconds from the first copy of a message after which no further copy is sent, not even"
        " by an operator. MessageIds are kept for the same time. 0: no limit.",
    )
    window = bounded_field(
        "window",
        WINDOW,
        BOUNDS["window"],
        "How many messages may be under way to the partner at once. If the partner has several"
        " agreements, the smallest value applies.",
    )
    on_failure = models.CharField(
        "on failure",
        max_length=4,
        choices=[(one.value, one.value) for one in OnSilence],
        default=OnSilence.FAIL.value,
        db_default=OnSilence.FAIL.value,
        help_text="What happens when all retries of a message are used. fail: the message fails,"
        " and the sending application gets DeliveryFailure. hold: it waits for an operator.",
    )
    ordered = models.BooleanField(
        "MessageOrder",
        default=False,
        db_default=False,
        help_text="Messages of a conversation are delivered in the order of their submission. Needs"
        " AckRequested and DuplicateElimination with OnceAndOnlyOnce, and no SyncReply.",
    )
    sync_reply = models.CharField(
        "SyncReply",
        max_length=18,
        choices=SyncReply,
        default=SyncReply.NONE,
        db_default=SyncReply.NONE.value,
        help_text="syncReplyMode: what is answered on the connection of the message. We answer"
        " with signals only; business responses of the partner are accepted.",
    )
    soap_action = models.CharField(
        "SOAPAction",
        max_length=255,
        blank=True,
        default="ebXML",
        db_default="ebXML",
        validators=[check_soap_action],
        help_text="The SOAPAction of the messages that we send, without quotes. {service} and"
        " {action} are replaced by those of the message, as in"
        " urn:example:services/{service}/{action}.",
    )
    refuses_status = models.BooleanField(
        "refuse StatusRequest",
        default=False,
        db_default=False,
        help_text="A StatusRequest of the partner is answered with UnAuthorized.",
    )
    lenient = ArrayField(
        models.CharField(max_length=6),
        blank=True,
        default=list,
        db_default=[],
        validators=[check_lenient],
        help_text="Requirements whose breach is logged and ignored, separated by commas:"
        f" {', '.join(WAIVABLE)}.",
    )
    retryable_codes = ArrayField(
        models.CharField(max_length=CODE_LIMIT),
        blank=True,
        default=list,
        db_default=[],
        validators=[check_codes],
        help_text="Error codes in the detail of a SOAP Fault, separated by commas: a message that"
        " is refused with one of them is sent again, whatever the faultcode.",
    )
    clock_tolerance = bounded_field(
        "tolerance of clocks",
        60,
        BOUNDS["clock_tolerance"],
        "Seconds after its TimeToLive for which a message of the partner is still accepted: the"
        " clocks of two hosts differ.",
    )
    check_ref_to = models.BooleanField(
        "check RefToMessageId",
        default=False,
        db_default=False,
        help_text="Refuse messages that refer to an unknown message.",
    )

    signed = models.BooleanField(
        "signed messages",
        default=False,
        db_default=False,
        help_text="Messages are signed, ours and theirs: one of the partner without a signature is"
        " refused with SecurityFailure. Needs its certificate, and MSH_SIGNING_KEY.",
    )
    ack_signed = models.BooleanField(
        "signed Acknowledgments",
        default=False,
        db_default=False,
        help_text="Acknowledgments are signed, ours and theirs: one without a signature does not"
        " count. Needs the certificate of the partner, and MSH_SIGNING_KEY.",
    )
    signature_method = models.CharField(
        "signature method",
        max_length=12,
        choices=SignatureMethod,
        default=SignatureMethod.RSA_SHA256,
        db_default=SignatureMethod.RSA_SHA256.value,
        help_text="How we sign messages and signals. ECDSA needs an EC key in MSH_SIGNING_KEY, RSA"
        " an RSA key. SHA-1 can be forged: only for a partner that takes nothing else.",
    )
    certificate = models.TextField(
        "certificate",
        blank=True,
        default="",
        db_default="",
        validators=[check_certificates],
        help_text="The certificate by which signatures of the partner are verified, in PEM; several"
        " one after another while the partner changes it. No other is trusted.",
    )
    allow_sha1 = models.BooleanField(
        "allow SHA-1",
        default=False,
        db_default=False,
        help_text="Signatures of the partner may use SHA-1, which can be forged.",
    )
    keep_expired = models.BooleanField(
        "keep expired certificate",
        default=False,
        db_default=False,
        help_text="Signatures of a certificate that has expired are accepted.",
    )
    encrypted = models.BooleanField(
        "encrypted payloads",
        default=False,
        db_default=False,
        help_text="Payloads are encrypted, ours and theirs: a message of the partner with one that"
        " is not is refused with SecurityFailure. Needs a certificate, and MSH_DECRYPTION_KEY.",
    )
    encryption_method = models.CharField(
        "encryption method",
        max_length=10,
        choices=EncryptionMethod,
        default=EncryptionMethod.AES_256_GCM,
        db_default=EncryptionMethod.AES_256_GCM.value,
        help_text="How our payloads are encrypted. CBC needs signed messages, ours and theirs: what"
        " it encrypts can be changed on the way.",
    )
    encryption_certificate = models.TextField(
        "certificate for encryption",
        blank=True,
        default="",
        db_default="",
        validators=[check_certificates],
        help_text="The certificate for whose holder our payloads are encrypted, in PEM; of several"
        " the valid one that became so last. Empty: those by which signatures are verified.",
    )
    allow_rsa_1_5 = models.BooleanField(
        "allow RSA 1.5",
        default=False,
        db_default=False,
        help_text="The partner may encrypt its keys by RSA 1.5 (PKCS #1), which has been broken"
        " more than once. We never do.",
    )

    class Meta:
        abstract = True

    def refuse_short_persist_duration(self, retries: int, retry_interval: int) -> None:
        """EB-102: the last copies of a message would not be known as such, nor be sent."""
        needed = retries * retry_interval
        if 0 < self.persist_duration <= needed:
            text = f"Must be longer than retries x retry_interval ({needed} s), or 0: no limit."
            raise ValidationError({"persist_duration": text})

    def refuse_what_cannot_be_verified(self) -> None:
        """EB-172, EB-175. No signature covers what is for the next MSH (EB-166)."""
        wrong = {
            name: "Needs the certificate of the partner."
            for name in ("signed", "ack_signed")
            if getattr(self, name) and not self.certificate
        }
        if self.ack_signed and self.ack_actor == AckActor.NEXT_MSH:
            wrong["ack_signed"] = "Cannot be combined with ack_actor nextMSH: toPartyMSH is needed."
        if self.certificate and "EB-175" in self.lenient:
            text = "EB-175 cannot be combined with a certificate: signatures are verified."
            wrong["lenient"] = text
        if wrong:
            raise ValidationError(wrong)

    def refuse_what_cannot_be_signed(self) -> None:
        """EB-168. Without any key, messages wait for one, and a check says so."""
        if not (self.signed or self.ack_signed) or self.signature_method not in ALGORITHMS:
            return
        if why := why_unfit(self.signature_method):
            other = "rsa-sha256" if self.signature_method.startswith("ecdsa") else "ecdsa-sha256"
            cure = f"add one with its certificate, or choose a method such as {other}"
            raise ValidationError({"signature_method": f"{why}: {cure}."})

    @property
    def certificates_to_encrypt_for(self) -> tuple[x509.Certificate, ...]:
        """Raises KeyUnusable."""
        return enciphering(certificates_of(self.encryption_certificate or self.certificate))

    def refuse_what_cannot_be_encrypted(self) -> None:
        """EB-185, EB-187. Without a signature it can be found out, answer by answer, what is
        encrypted by CBC."""
        wrong = {}
        if self.encrypted and not self._can_encrypt():
            where = "encryption_certificate" if self.encryption_certificate else "encrypted"
            wrong[where] = (
                "Needs a certificate of the partner for an RSA key of 2048 bits or more that may"
                " encipher keys."
            )
        if self.encrypted and not self.signed and self.encryption_method.endswith("-cbc"):
            wrong["encryption_method"] = f"{self.encryption_method} needs signed messages."
        if self.encrypted and "EB-185" in self.lenient:
            text = "EB-185 cannot be combined with encrypted: payloads are decrypted here."
            wrong["lenient"] = text
        if wrong:
            raise ValidationError(wrong)

    def _can_encrypt(self) -> bool:
        try:
            return bool(self.certificates_to_encrypt_for)
        except KeyUnusable:
            return True  # the field is refused for that

    def refuse_what_order_forbids(self) -> None:
        """EB-076, EB-125."""
        wrong = {
            name: f"{getattr(self, name)} cannot be combined with ordered: {only}."
            for name, refused, only in _WITH_ORDER
            if refused(getattr(self, name))
        }
        if wrong:
            raise ValidationError(wrong)


def _is_never(presence: str) -> bool:
    return presence == Presence.NEVER


def _is_asked(sync_reply: str) -> bool:
    return sync_reply != SyncReply.NONE


_NOT_NEVER = "always or perMessage is needed"
_WITH_ORDER = (
    ("ack", _is_never, _NOT_NEVER),
    ("eliminates", _is_never, _NOT_NEVER),
    ("sync_reply", _is_asked, "none is needed"),
)
"""Setting, what it may not be in an ordered agreement, and what it may."""
