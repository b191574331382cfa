"""Start-up checks: a wrong setting is one sentence now, not a surprise at the first message."""

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from cryptography.fernet import Fernet
from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import ERROR, CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import DatabaseError
from django.db.models import Q, QuerySet
from psycopg import ProgrammingError
from psycopg.conninfo import make_conninfo

from msh import proxies, sign_on_settings, trace_hook
from msh.connections import ENGINE, OF_DJANGO, SESSION_LIMITS
from msh.decryption_keys import our_decryption_keys, why_no_decryption_key
from msh.models import Consumer
from msh.models.consumer import why_not_posted_to
from msh.pem import KeyUnusable
from msh.protocol.ebms.signature import ALGORITHMS
from msh.protocol.four_eyes import parse_rules
from msh.signing_keys import our_keys, why_no_key
from msh.store import server
from msh.transport import signature
from msh.transport.tls import TlsUnusable, client_context, why_not_shown
from partners.models import Agreement, Credential, CredentialKind, Partner
from partners.models.networks import networks_of
from partners.models.partner import known_by_network
from partners.retention import kept_longer

logger = logging.getLogger(__name__)

SHORTEST_TOKEN = 16
"""Characters of MSH_METRICS_TOKEN."""
_RATE = re.compile(r"[1-9][0-9]*/(second|minute|hour|day)")


@register(Tags.security)
def check_settings(
    app_configs: Sequence[AppConfig] | None,
    **kwargs: object,
) -> list[CheckMessage]:
    uris = (*_uri("MSH_URI"), *_uri("MSH_ERROR_URI"))
    return [
        *_database(),
        *uris,
        *_fernet_keys(),
        *_signing_keys(),
        *_decryption_keys(),
        *_tls(),
        *_disk_path(),
        *_webhook(),
        *_handler(),
        *_signing("MSH_FROM_PARTY_SIGNING"),
        *_signing("MSH_OPERATORS_WEBHOOK_SIGNING"),
        *_api_rate(),
        *_second_person(),
        *_time_zone(),
        *_proxies(),
        *_certificate_header(),
        *_metrics(),
        *_traces(),
        *sign_on_settings.check_provider(),
    ]


@register(Tags.security, deploy=True)
def check_deployment(
    app_configs: Sequence[AppConfig] | None,
    **kwargs: object,
) -> list[CheckMessage]:
    """Check for settings that are valid, but dangerous for the existing partners or this
    database."""
    try:
        return [
            *_wide_proxies(),
            *_certificates_without_header(),
            *_old_snapshot(),
            *_unsigned(),
            *_undecrypted(),
            *_unshown(),
        ]
    except DatabaseError:
        return []  # `check_store` says so


def _having(*terms: str) -> QuerySet[Agreement]:
    """Those that have any of these terms, themselves or in a channel."""
    having = (Q((f"{of}{term}", True)) for of in ("", "channels__") for term in terms)
    return Agreement.objects.filter(Q(*having, _connector=Q.OR)).distinct()


def _unsigned() -> Iterator[CheckMessage]:
    """Messages under such an agreement wait, and those of its partner may be refused."""
    lacking = {name: why for name in ALGORITHMS if (why := why_no_key(name))}
    if not lacking:
        return
    for one in _having("signed", "ack_signed").prefetch_related("channels"):
        for name in lacking.keys() & one.signature_methods:
            yield Caution(
                f"Agreement {one} wants signatures of ours: {lacking[name]}.",
                hint="Set MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE to files with a valid one.",
                id="msh.W007",
            )
            return


def _undecrypted() -> Iterator[CheckMessage]:
    """Messages of the partner under such an agreement are refused."""
    first = _having("encrypted").first()
    if first is not None and (why := why_no_decryption_key()):
        yield Caution(
            f"Agreement {first} wants payloads encrypted for us: {why}.",
            hint="Set MSH_DECRYPTION_KEY to a file with the key of the certificate that the partner"
            " encrypts for.",
            id="msh.W008",
        )


def _webhook() -> Iterator[CheckMessage]:
    """Check the webhook. Its address may contain a secret, so the message does not repeat it."""
    url = settings.MSH_OPERATORS_WEBHOOK
    if url and (why := why_not_posted_to(url)):
        yield Error(
            f"MSH_OPERATORS_WEBHOOK: {why}",
            hint="Set it to https://HOST/PATH, and credentials as"
            " MSH_OPERATORS_WEBHOOK_AUTHORIZATION, or leave it empty to disable the webhook.",
            id="msh.E007",
        )


def _handler() -> Iterator[CheckMessage]:
    url = settings.MSH_FROM_PARTY_HANDLER
    if "://" in url and (why := why_not_posted_to(url)):
        yield Error(
            f"MSH_FROM_PARTY_HANDLER: {why}",
            hint="Set it to https://HOST/PATH, and credentials as MSH_FROM_PARTY_AUTHORIZATION.",
            id="msh.E021",
        )


def _signing(name: str) -> Iterator[CheckMessage]:
    """Check secrets of signatures, without repeating them."""
    secrets = getattr(settings, name)
    try:
        for secret in secrets:
            signature.key_of(secret)
        why = f"At most {signature.KEYS} secrets sign." if len(secrets) > signature.KEYS else ""
    except ValueError as problem:
        why = str(problem)
    if why:
        yield Error(
            f"{name}: {why}",
            hint=f"Set it to {signature.PREFIX} and 24 to 64 bytes as base64, such as"
            ' python -c "from msh.transport.signature import new_secret; print(new_secret())"'
            " prints; two, the new one first, while receivers change; or leave it empty.",
            id="msh.E023",
        )


def _api_rate() -> Iterator[CheckMessage]:
    if settings.MSH_API_RATE and not _RATE.fullmatch(settings.MSH_API_RATE):
        yield Error(
            f"MSH_API_RATE is {settings.MSH_API_RATE!r}, which is not a rate.",
            hint="Set it to a number per second, minute, hour or day, such as 200/second, or"
            " leave it empty.",
            id="msh.E008",
        )


def _time_zone() -> Iterator[CheckMessage]:
    if settings.MSH_TIME_ZONE not in available_timezones():
        yield Error(
            f"MSH_TIME_ZONE is {settings.MSH_TIME_ZONE!r}, which is not a time zone.",
            hint="Set it to a name such as Europe/Madrid, or UTC.",
            id="msh.E017",
        )


def _second_person() -> Iterator[CheckMessage]:
    try:
        parse_rules(settings.MSH_SECOND_PERSON)
    except ValueError as problem:
        yield Error(
            f"MSH_SECOND_PERSON: {problem}.",
            hint="Set it to rules separated by commas, such as"
            " reset,unknown:Operator|Supervisor, or all.",
            id="msh.E016",
        )
    if settings.MSH_SECOND_PERSON and not apps.is_installed("msh.four_eyes"):
        yield Error(
            "MSH_SECOND_PERSON needs msh.four_eyes, which is not one of the INSTALLED_APPS.",
            hint="Add it, or leave MSH_SECOND_PERSON empty.",
            id="msh.E022",
        )


def _proxies() -> Iterator[CheckMessage]:
    try:
        networks_of(settings.MSH_TRUSTED_PROXIES)
    except ValueError as problem:
        yield Error(
            f"MSH_TRUSTED_PROXIES: {problem}.",
            hint="Write networks such as 192.0.2.1 or 10.0.0.0/8, separated by commas.",
            id="msh.E013",
        )


_OWN_MEANING = re.compile(
    r"authorization|cookie|host|connection|content-.*|x-forwarded-.*", re.IGNORECASE
)


def _certificate_header() -> Iterator[CheckMessage]:
    name = settings.MSH_CLIENT_CERTIFICATE_HEADER
    if not name:
        return
    why = "" if settings.MSH_TRUSTED_PROXIES else "MSH_TRUSTED_PROXIES names no proxy that sets it"
    if not re.fullmatch(r"[A-Za-z0-9-]+", name) or _OWN_MEANING.fullmatch(name):
        why = f"{name!r} is no name of a header of its own"
    if why:
        yield Error(
            f"MSH_CLIENT_CERTIFICATE_HEADER: {why}.",
            hint="Set it to the header that the proxy sets, such as X-Client-Certificate, or leave"
            " it empty. See docs/tls.md.",
            id="msh.E027",
        )


def _certificates_without_header() -> Iterator[CheckMessage]:
    known = Credential.objects.filter(kind=CredentialKind.CERTIFICATE).select_related("partner")
    if (first := known.first()) is None:
        return
    if not settings.MSH_CLIENT_CERTIFICATE_HEADER:
        yield Caution(
            f"Partner {first.partner} has a client certificate as credential, and nothing says in"
            " which header the proxy names it.",
            hint="Set MSH_CLIENT_CERTIFICATE_HEADER; see docs/tls.md.",
            id="msh.W009",
        )
    elif wide := proxies.too_wide():
        yield Caution(
            f"MSH_TRUSTED_PROXIES trusts {', '.join(map(str, wide))}: whoever has an address there"
            f" may claim the client certificate of partner {first.partner}.",
            hint="Name the addresses of the proxies one by one. See docs/proxies.md.",
            id="msh.W010",
        )


def _wide_proxies() -> Iterator[CheckMessage]:
    if (wide := proxies.too_wide()) and (partner := known_by_network().first()):
        yield Caution(
            f"MSH_TRUSTED_PROXIES trusts {', '.join(map(str, wide))}: whoever has an address there"
            f" may send as partner {partner}, which is known by its network alone.",
            hint="Name the addresses of the proxies one by one, or give the partner a credential."
            " See docs/proxies.md.",
            id="msh.W005",
        )


def _old_snapshot() -> Iterator[CheckMessage]:
    oldest = server.oldest_snapshot()
    if oldest is not None and oldest.old:
        yield Caution(
            f"An old snapshot of the database slows all queues down: {oldest}.",
            hint="End it; see docs/monitoring.md.",
            id="msh.W006",
        )


def _metrics() -> Iterator[CheckMessage]:
    token = settings.MSH_METRICS_TOKEN
    if token and len(token) < SHORTEST_TOKEN:
        yield Error(
            f"MSH_METRICS_TOKEN has fewer than {SHORTEST_TOKEN} characters.",
            hint="Create one with openssl rand -hex 20.",
            id="msh.E014",
        )
    try:
        networks_of(settings.MSH_METRICS_NETWORKS)
    except ValueError as problem:
        yield Error(
            f"MSH_METRICS_NETWORKS: {problem}.",
            hint="Write networks such as 192.0.2.1 or 10.0.0.0/8, separated by commas.",
            id="msh.E015",
        )


def _traces() -> Iterator[CheckMessage]:
    endpoint = settings.MSH_OTLP_ENDPOINT
    parts = urlsplit(endpoint)
    usable = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    if endpoint and not usable:
        yield Error(
            f"MSH_OTLP_ENDPOINT is {endpoint.rpartition('@')[2]!r}, which is not an http or https"
            " URL without credentials.",
            hint="Write http://HOST:4318/v1/traces, or leave it empty: then nothing is traced.",
            id="msh.E018",
        )
    elif endpoint and not trace_hook.is_installed():
        yield Error(
            "MSH_OTLP_ENDPOINT needs OpenTelemetry, which is not installed.",
            hint="pip install 'msh[otel]'",
            id="msh.E019",
        )
    if not 0 <= settings.MSH_TRACES_SHARE <= 1:
        yield Error(
            f"MSH_TRACES_SHARE is {settings.MSH_TRACES_SHARE}.",
            hint="Set it to a number from 0 to 1, such as 0.1: one message in ten.",
            id="msh.E020",
        )


def _disk_path() -> Iterator[CheckMessage]:
    if settings.MSH_DISK_PATH and not Path(settings.MSH_DISK_PATH).exists():
        yield Error(
            f"MSH_DISK_PATH is {settings.MSH_DISK_PATH!r}, and there is no such folder.",
            hint="Set it to a folder on the disk that must not fill up, or leave it empty.",
            id="msh.E005",
        )


NOT_PREPARED = "The document history is missing: exactly-once delivery is impossible."


def require() -> None:
    """Raise ImproperlyConfigured, with a line for each error, if the MSH cannot work as it is set.
    Warnings are logged.

    Called by each process before it starts: Django asks the store only where it is told to, and
    nobody looks at what Celery's own checks say.
    """
    found = [
        *check_settings(None),
        *check_store(None, databases=["default"]),
        *check_deployment(None),
    ]
    for message in found:
        if message.level < ERROR:
            logger.warning("%s", message)
    if errors := [str(message) for message in found if message.level >= ERROR]:
        raise ImproperlyConfigured("\n".join(errors))


@register(Tags.database)
def check_store(
    app_configs: Sequence[AppConfig] | None,
    databases: Sequence[str] | None = None,
    **kwargs: object,
) -> list[CheckMessage]:
    """Without its document history nothing is delivered once and only once (002-12)."""
    return [*_store()] if databases else []


def _store() -> Iterator[CheckMessage]:
    try:
        prepared = server.has_tables()
    except DatabaseError as problem:
        yield Error(
            f"The database cannot be reached: {str(problem).strip()}",
            hint="Set DATABASE_URL or start PostgreSQL. Until then nothing is delivered or"
            " acknowledged.",
            id="msh.E010",
        )
        return
    if not prepared:
        yield Error(NOT_PREPARED, hint="Run manage.py prepare.", id="msh.E006")
        return
    yield from _session()
    yield from sign_on_settings.check_roles()
    for why in kept_longer().values():
        yield Caution(
            why,
            hint="Its MessageIds are kept longer; everything else is kept as configured.",
            id="msh.W002",
        )
    for consumer in Consumer.objects.filter(enabled=True):
        try:
            consumer.clean_fields()
        except ValidationError as problem:
            yield Caution(
                f"Consumer {consumer}: {' '.join(problem.messages)}",
                hint="Its messages fail until this is fixed with manage.py consumer or in the"
                " console.",
                id="msh.W001",
            )


def _session() -> Iterator[CheckMessage]:
    """Check the parameters of a session: a pooler may drop them, or the URL change them."""
    commit, *limits = server.session_settings(["synchronous_commit", *SESSION_LIMITS])
    if commit == "off":
        yield Error(
            "synchronous_commit is off: acknowledged messages may be lost if PostgreSQL crashes.",
            hint="MSH sets it to on; a pooler drops that setting, or DATABASE_URL overrides it."
            " See docs/connections.md.",
            id="msh.E011",
        )
    if missing := [
        name for name, limit in zip(SESSION_LIMITS, limits, strict=True) if limit == "0"
    ]:
        yield Caution(
            f"Sessions have no {' and no '.join(missing)}: a stalled process keeps its locks"
            " and blocks others indefinitely.",
            hint="MSH sets them; a pooler drops those settings, or DATABASE_URL overrides them."
            " See docs/connections.md.",
            id="msh.W003",
        )


def _database() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"] != ENGINE:
        yield Error(
            "The database is not PostgreSQL.",
            hint="Set DATABASE_URL to postgres://user:password@host:port/name.",
            id="msh.E001",
        )
        return
    options = settings.DATABASES["default"]["OPTIONS"]
    try:
        make_conninfo(**{name: options[name] for name in options.keys() - OF_DJANGO})
    except ProgrammingError as problem:
        yield Error(
            f"DATABASE_URL is invalid: {str(problem).strip()}",
            hint="Its query takes libpq connection parameters, such as sslmode=verify-full.",
            id="msh.E009",
        )


def _unshown() -> Iterator[CheckMessage]:
    """Connections to such a partner fail."""
    for partner in Partner.objects.exclude(client_certificate="").order_by("name"):
        name = partner.client_certificate
        if why := why_not_shown(name):
            yield Caution(
                f"Partner {partner.name} is to be shown our client certificate {name}: {why}.",
                hint=f"MSH_CLIENT_CERTIFICATES is a folder with {name}.pem, which has the"
                f" certificate and its key without a password, or the key is in {name}.key.",
                id="msh.W011",
            )
            return


def _uri(name: str) -> Iterator[CheckMessage]:
    value = getattr(settings, name)
    parts = urlsplit(value)
    usable = parts.scheme in {"http", "https", "mailto"} and (parts.netloc or parts.path)
    if not usable or "@" in parts.netloc:
        yield Error(
            f"{name} is {value!r}, which is not a URL that partners can reach.",
            hint=f"Set {name} to the public address of the endpoint: https://msh.example/ebxml/.",
            id="msh.E002",
        )


def _signing_keys() -> Iterator[CheckMessage]:
    try:
        our_keys()
    except KeyUnusable as problem:
        yield Error(
            f"Messages of ebMS 2.0 cannot be signed: {problem}.",
            hint="MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name files in PEM: an RSA key of 2048"
            " bits or more, or one of P-256, P-384 or P-521, without a password, and its"
            " certificate; several, separated by commas, in the same order. Or leave both empty.",
            id="msh.E024",
        )


def _decryption_keys() -> Iterator[CheckMessage]:
    try:
        our_decryption_keys()
    except KeyUnusable as problem:
        yield Error(
            f"Payloads of ebMS 2.0 cannot be decrypted: {problem}.",
            hint="MSH_DECRYPTION_KEY names files in PEM, separated by commas: RSA keys of 2048 bits"
            " or more without a password. Or leave it empty.",
            id="msh.E025",
        )


def _tls() -> Iterator[CheckMessage]:
    try:
        client_context()
    except TlsUnusable as problem:
        yield Error(
            f"There is no TLS to partners: {problem}.",
            hint="MSH_CLIENT_CERTIFICATE, MSH_CLIENT_KEY and MSH_CA_BUNDLE name files in PEM, the"
            " key without a password; MSH_TLS_CIPHERS has ciphers as `openssl ciphers` takes them."
            " Or leave them empty.",
            id="msh.E026",
        )


def _fernet_keys() -> Iterator[CheckMessage]:
    if not settings.MSH_FERNET_KEYS:
        yield Error(
            "MSH_FERNET_KEYS is empty: partners' credentials cannot be encrypted.",
            hint="Create a key with cryptography.fernet.Fernet.generate_key() and keep it secret.",
            id="msh.E003",
        )
    for number, key in enumerate(settings.MSH_FERNET_KEYS, 1):
        try:
            Fernet(key)
        except ValueError:
            yield Error(
                f"Key {number} of MSH_FERNET_KEYS is not 32 bytes in url-safe base64.",
                id="msh.E004",
            )
