"""Settings, all from the environment (12-factor). The names are listed in docs/settings.md.

`manage.py up --data FOLDER` writes them for one MSH into FOLDER; see `msh.standalone.datafolder`.
"""

from pathlib import Path
from urllib.parse import urljoin, urlsplit
from zlib import crc32

import environ
from django.urls import reverse_lazy

from msh import sign_on_settings, trace_hook
from msh.connections import broker_settings, database_settings
from msh.logs import logging_config

env = environ.FileAwareEnv()
"""NAME_FILE names a file that has the value of NAME, as secrets of containers are handed over."""

# --- this MSH -----------------------------------------------------------------------------------
MSH_URI = env.str("MSH_URI", default="")
"""Our identity in a RoutingHeader: the address of our endpoint as partners know it."""
MSH_ERROR_URI = env.str("MSH_ERROR_URI", default=MSH_URI)
MSH_FERNET_KEYS = env.list("MSH_FERNET_KEYS", default=[])
"""Keys that encrypt partners' credentials: the first encrypts, every one decrypts."""
MSH_SIGNING_KEY = env.list("MSH_SIGNING_KEY", default=[])
MSH_SIGNING_CERTIFICATE = env.list("MSH_SIGNING_CERTIFICATE", default=[])
"""Files of the keys that sign messages of ebMS 2.0, and of their certificates (PEM)."""
MSH_DECRYPTION_KEY = env.list("MSH_DECRYPTION_KEY", default=[])
"""Files of the keys that decrypt payloads of ebMS 2.0 (PEM): every one is tried."""
MSH_CLIENT_CERTIFICATE = env.str("MSH_CLIENT_CERTIFICATE", default="")
MSH_CLIENT_KEY = env.str("MSH_CLIENT_KEY", default="")
"""Files (PEM) of the certificate that we show servers of partners which ask for one, and of its
key. Without the second the first has both."""
MSH_CLIENT_CERTIFICATES = env.str("MSH_CLIENT_CERTIFICATES", default="")
"""A folder with others, which single partners are shown: NAME.pem, and NAME.key if the first has no
key."""
MSH_CA_BUNDLE = env.str("MSH_CA_BUNDLE", default="")
"""A file (PEM) of the authorities whose certificates servers of partners, and our mail host, may
have. If empty, those of the system."""
MSH_TLS_CIPHERS = env.str("MSH_TLS_CIPHERS", default="")
"""The ciphers of TLS 1.2 to partners, as OpenSSL writes them. If empty, OpenSSL's own."""
MSH_MESSAGE_LIMIT = env.int("MSH_MESSAGE_LIMIT", default=25 * 1024 * 1024)  # bytes
MSH_HTTP_DEADLINE = env.float("MSH_HTTP_DEADLINE", default=60.0)  # seconds, of one attempt
MSH_DISK_PATH = env.str("MSH_DISK_PATH", default="")
"""A folder on the disk that must not fill up, such as the database's. If empty, no disk is watched.
"""
MSH_DISK_WATERMARK = env.int("MSH_DISK_WATERMARK", default=256 * 1024 * 1024)
"""Bytes that must stay free there: with fewer, new messages of partners are postponed."""
MSH_STORE_LIMIT = env.int("MSH_STORE_LIMIT", default=0)  # bytes of the database; 0: no limit
MSH_STUCK_AFTER = env.int("MSH_STUCK_AFTER", default=3600)
"""Seconds that a message may wait, its link not being suspended, before an operator is called."""
MSH_CALLABLES = env.list("MSH_CALLABLES", default=[])
"""Prefixes of the dotted paths of functions that settings may name. If empty, they may name any
function but Python's own."""
MSH_CONSUMER = env.str("MSH_CONSUMER", default="")
"""Dotted path of the callable for messages that no other consumer takes: `manage.py prepare` keeps
the consumer "default" in step with it. If empty, the console decides."""
MSH_FROM_PARTY_HANDLER = env.str("MSH_FROM_PARTY_HANDLER", default="")
"""The function, by its dotted path, or the http(s) address that is told the outcome of each
message. If empty, nobody is told."""
MSH_FROM_PARTY_AUTHORIZATION = env.str("MSH_FROM_PARTY_AUTHORIZATION", default="")
"""The Authorization header of requests to that address."""
MSH_FROM_PARTY_SIGNING = env.list("MSH_FROM_PARTY_SIGNING", default=[])
"""The secrets, at most two, by which those requests are signed."""
MSH_OPERATORS_EMAIL = env.list("MSH_OPERATORS_EMAIL", default=[])
"""E-mail addresses of operators, who are called through EMAIL_URL when an incident opens or a
message is late. If empty, nobody is called."""
MSH_OPERATORS_WEBHOOK = env.str("MSH_OPERATORS_WEBHOOK", default="")
"""The address to which the same calls are POSTed as JSON."""
MSH_OPERATORS_WEBHOOK_AUTHORIZATION = env.str("MSH_OPERATORS_WEBHOOK_AUTHORIZATION", default="")
MSH_OPERATORS_WEBHOOK_SIGNING = env.list("MSH_OPERATORS_WEBHOOK_SIGNING", default=[])
"""The secrets, at most two, by which those POSTs are signed."""
MSH_CONSOLE_URL = env.str("MSH_CONSOLE_URL", default=urljoin(MSH_URI, "/admin/"))
"""The address of the console as operators reach it, for the links in those calls."""
MSH_KEEP_MESSAGES = env.int("MSH_KEEP_MESSAGES", default=365)
"""Days that a message and its id are kept after its end (D39)."""
MSH_KEEP_PAYLOADS = env.int("MSH_KEEP_PAYLOADS", default=90)
"""Days that the payloads of a message are kept after its end."""
MSH_KEEP_IDS = env.int("MSH_KEEP_IDS", default=1826)
"""Days that the id of a submitted message is kept after its end, so that the same submission is not
sent a second time: also after the message itself has gone."""
MSH_KEEP_CHANGES = env.int("MSH_KEEP_CHANGES", default=3653)
"""Days that changes of settings, saved pages and log-ins of the console are kept; at least 366."""
MSH_SESSION_IDLE = env.int("MSH_SESSION_IDLE", default=8 * 3600)
"""Seconds without an act of its user after which a session of the console ends."""
MSH_TIME_ZONE = env.str("MSH_TIME_ZONE", default="UTC")
"""The time zone of the console, such as Europe/Madrid, for users who have chosen none."""
MSH_SECOND_PERSON = env.list("MSH_SECOND_PERSON", default=[])
"""The actions that a second person must confirm, each as VERB or VERB:ROLE|ROLE
(`msh.protocol.four_eyes`)."""
MSH_SECOND_PERSON_WITHIN = env.int("MSH_SECOND_PERSON_WITHIN", default=3600)  # seconds
MSH_ACT_ALONE = env.bool("MSH_ACT_ALONE", default=False)
"""Whether a user who has the permission may go ahead without the second person. Operators are told
of it."""
MSH_READ_TIMEOUT = env.float("MSH_READ_TIMEOUT", default=15.0)
"""Seconds that one statement of a page of the console or of a GET of the API may take; 0: no
limit."""
MSH_API_RATE = env.str("MSH_API_RATE", default="200/second")
"""Requests of one API token that each web process takes, per second, minute, hour or day. If empty,
there is no limit."""
MSH_METRICS_TOKEN = env.str("MSH_METRICS_TOKEN", default="")
"""The bearer token with which Prometheus may read /metrics."""
MSH_METRICS_NETWORKS = " ".join(env.list("MSH_METRICS_NETWORKS", default=[]))
"""Networks from which /metrics may be read without the token."""
MSH_METRICS_PARTNERS = env.list("MSH_METRICS_PARTNERS", default=[])
"""Names of the partners, at most 20, that have metrics of their own."""

# --- the web server: each number is of one web process --------------------------------------------
MSH_WEB_CONNECTIONS = env.int("MSH_WEB_CONNECTIONS", default=2000)
MSH_WEB_MEMORY = env.int("MSH_WEB_MEMORY", default=64 * 1024 * 1024)
"""Bytes of bodies and answers that are kept in memory; further ones go to temporary files."""
MSH_UPLOADS = env.int("MSH_UPLOADS", default=512)
"""Bodies that may be under way; at most half of them of senders that are not known."""
MSH_UPLOADS_KNOWN = env.int("MSH_UPLOADS_KNOWN", default=16)
"""Bodies of one partner, API token or user that may be under way."""
MSH_UPLOADS_UNKNOWN = env.int("MSH_UPLOADS_UNKNOWN", default=8)
"""Bodies of one address, whose sender is not known, that may be under way."""
MSH_BODY_GRACE = env.float("MSH_BODY_GRACE", default=20.0)
"""Seconds after which a body, and an answer, must have moved on at MSH_BODY_RATE."""
MSH_BODY_RATE = env.int("MSH_BODY_RATE", default=8 * 1024)  # bytes a second
MSH_TRUSTED_PROXIES = " ".join(env.list("MSH_TRUSTED_PROXIES", default=[]))
"""Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""
MSH_CLIENT_CERTIFICATE_HEADER = env.str("MSH_CLIENT_CERTIFICATE_HEADER", default="")
"""The header in which these proxies name the certificate of a client. If empty, none does."""

# --- mail: only for partners whose address is mailto: ---------------------------------------------
_mail = env.email_url("EMAIL_URL", default="smtp://localhost:25")
"""The host that takes our mail: smtp://, smtp+tls:// (STARTTLS) or smtp+ssl://."""
EMAIL_HOST, EMAIL_PORT = _mail["EMAIL_HOST"], _mail["EMAIL_PORT"]
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail["EMAIL_HOST_USER"], _mail["EMAIL_HOST_PASSWORD"]
EMAIL_USE_TLS = _mail.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _mail.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 10  # seconds
MSH_MAIL_DOMAIN = urlsplit(MSH_URI).hostname or "localhost"
MSH_OPERATORS_EMAIL_FROM = env.str("MSH_OPERATORS_EMAIL_FROM", default=f"msh@{MSH_MAIL_DOMAIN}")

# --- Django -------------------------------------------------------------------------------------
DEBUG = env.bool("DEBUG", default=False)
DEFAULT_EXCEPTION_REPORTER_FILTER = "msh.web.security.SecretsHidden"
SECRET_KEY = env.str("SECRET_KEY", default="")
_console = urlsplit(MSH_CONSOLE_URL)
_our_hosts = [urlsplit(MSH_URI).hostname or "", _console.hostname or ""]
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[*_our_hosts, "127.0.0.1", "localhost"])
CSRF_TRUSTED_ORIGINS = env.list(
    "CSRF_TRUSTED_ORIGINS",
    default=[f"https://{_console.netloc}"] if _console.scheme == "https" else [],
)
ROOT_URLCONF = "msh.urls"
WSGI_APPLICATION = "msh.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
FORMAT_MODULE_PATH = ["msh.formats"]
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
"""Bytes of a form without its files; the import of agreements needs `configure.DOCUMENT_LIMIT`."""
DATA_UPLOAD_MAX_NUMBER_FIELDS = 11_000
"""Fields of a form; the list of deliveries needs `deliveries.delivery.BULK_LIMIT`."""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "msh",  # before unfold, some of whose templates it replaces
    "msh.alerts",
    "msh.business_keys",
    "msh.four_eyes",
    "msh.statistics",
    "msh.management.inspection",  # commands that only look
    "msh.standalone",  # commands that set up and run an MSH
    "partners",
    "msh.console_site.Unfold",  # before django.contrib.admin, whose templates it replaces
    "unfold.contrib.filters",
    "django.contrib.admin.apps.SimpleAdminConfig",  # msh.urls finds the pages: commands need none
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",  # its templates, for FORM_RENDERER
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "axes",
]

MIDDLEWARE = [
    "msh.api.framework.request_ids.RequestIds",
    "django.middleware.security.SecurityMiddleware",
    "msh.web.security.ContentSecurityPolicy",
    "msh.web.static_files.Compression",
    "msh.web.probes.Probes",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "msh.admin.framework.time_zone.TimeZones",
    "msh.admin.framework.error_pages.ErrorPages",
    "msh.admin.framework.sessions.Sessions",
    "axes.middleware.AxesMiddleware",
]

# At the top level of a checkout; the wheel has them in msh/templates, where APP_DIRS looks.
_PACKED_TEMPLATES = Path(__file__).with_name("templates")
_TEMPLATES = _PACKED_TEMPLATES.parents[1] / "templates"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [] if _PACKED_TEMPLATES.is_dir() else [_TEMPLATES],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "msh.admin.framework.liveness.silent_processes",
            ],
        },
    },
]

# A widget finds its template where a page does; Django's own renderer looks in packages only.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

STATIC_URL = "static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "msh.web.static_files.VersionedStorage"},
}
WHITENOISE_MAX_AGE = 30 * 24 * 3600  # the address of a file changes with its content
WHITENOISE_USE_FINDERS = True  # the console's own files are served from the packages they come in

# --- the console --------------------------------------------------------------------------------
_account_menu = [
    {"title": "Time zone", "link": reverse_lazy("time_zone")},
    {"title": "Sessions", "link": reverse_lazy("sessions")},
    {"title": "Change password", "link": reverse_lazy("admin:password_change")},
]
UNFOLD = {
    "SITE_TITLE": "MSH console",
    "SITE_HEADER": "MSH console",
    "SITE_SUBHEADER": "msh.admin.framework.navigation.our_uri",
    "SITE_SYMBOL": "swap_horiz",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "msh.admin.framework.navigation.icon"}
    ],
    "STYLES": ["msh.admin.framework.navigation.stylesheet"],
    "SCRIPTS": ["msh.admin.framework.navigation.script"],
    "DASHBOARD_CALLBACK": "msh.admin.dashboard.page.context",
    "ACCOUNT": {"navigation": _account_menu},
    "SIDEBAR": {"navigation": "msh.admin.framework.navigation.sidebar"},
    "TABS": "msh.admin.framework.navigation.tabs",
}

# --- the REST API -------------------------------------------------------------------------------
REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
SPECTACULAR_SETTINGS = {
    "TITLE": "MSH",
    "DESCRIPTION": "Messages to partners and from them, once and only once, in order. Errors are"
    " problem documents; /api/problems explains each code. Every answer has the header"
    " X-Request-Id: that of the request, if it has one, else a new one. JSON is sent with gzip to"
    " clients that accept it.",
    "VERSION": "1",
    "SERVERS": [{"url": "/", "description": "the MSH that serves this document"}],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "msh.api.schema.complete",
    ],
    "ENUM_NAME_OVERRIDES": {
        "OutboundState": "msh.models.outbound.SHOWN_STATES",
        "InboundState": "msh.models.InboundState",
        "DeliveryState": "msh.api.deliveries.STATES",
        "LinkState": "msh.api.documents.LINK_STATES",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# --- PostgreSQL ---------------------------------------------------------------------------------
DATABASES = {"default": database_settings(env.str("DATABASE_URL", default="postgres:///msh"))}

# --- Celery: its tasks only look for work, so losing one costs some seconds and nothing else -----
REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")
CELERY_BROKER_URL, CELERY_BROKER_TRANSPORT_OPTIONS, _tls = broker_settings(REDIS_URL)
CELERY_BROKER_USE_SSL = _tls or None
CELERY_TASK_IGNORE_RESULT = CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_PUBLISH_RETRY = CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_POOL, CELERY_WORKER_CONCURRENCY = "threads", 8
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a busy thread holds no task back
CELERY_WORKER_DIRECT = True  # each worker queues the tasks of its own loops (`msh/tasks.py`)
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BEAT_SCHEDULER = "msh.beat.scheduler:Scheduler"
CELERY_TIMEZONE = TIME_ZONE

# --- who may come in ----------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
AXES_FAILURE_LIMIT = 5  # failed logins
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "msh.admin.framework.error_pages.locked_out"
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "code", "csrfmiddlewaretoken"]
CSRF_FAILURE_VIEW = "msh.admin.framework.error_pages.csrf_failure"
# Browsers share cookies between the ports of a host: two MSHs there must not share a log-in.
SESSION_COOKIE_NAME = f"msh_session_{crc32(MSH_URI.encode()):08x}"
CSRF_COOKIE_NAME = f"msh_csrf_{crc32(MSH_URI.encode()):08x}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _console.scheme == "https"
SESSION_COOKIE_AGE = MSH_SESSION_IDLE
LOGIN_URL, LOGIN_REDIRECT_URL = reverse_lazy("admin:login"), reverse_lazy("admin:index")
SECURE_HSTS_SECONDS = 365 * 24 * 3600  # sent only over TLS
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # other hosts of our domain are not ours to decide about
    "security.W021",  # nor is its place in the lists of browsers
    "security.W008",  # the proxy redirects; inside, probes and metrics are asked for without TLS
]

# --- log-in at an identity provider, second factor; without both nothing of it is loaded ----------
MSH_OIDC_ISSUER = env.str("MSH_OIDC_ISSUER", default="")
MSH_OIDC_CLIENT_ID = env.str("MSH_OIDC_CLIENT_ID", default="")
MSH_OIDC_CLIENT_SECRET = env.str("MSH_OIDC_CLIENT_SECRET", default="")
MSH_OIDC_USERNAME = env.str("MSH_OIDC_USERNAME", default="preferred_username")  # a claim
MSH_OIDC_ROLES_CLAIM = env.str("MSH_OIDC_ROLES_CLAIM", default="groups")
MSH_OIDC_ROLES = env.dict("MSH_OIDC_ROLES", default={})  # value of that claim → role
MSH_SECOND_FACTOR = env.list("MSH_SECOND_FACTOR", default=[])  # roles, or "all"
if MSH_OIDC_ISSUER or MSH_SECOND_FACTOR:
    INSTALLED_APPS += sign_on_settings.apps()
    MIDDLEWARE += sign_on_settings.middleware(asks_for_codes=bool(MSH_SECOND_FACTOR))
    SOCIALACCOUNT_ADAPTER = sign_on_settings.ADAPTER
    MFA_ADAPTER = sign_on_settings.SECOND_FACTOR_ADAPTER
    SOCIALACCOUNT_LOGIN_ON_GET = True  # a form may not lead to another host: form-action
    _client = (MSH_OIDC_CLIENT_ID, MSH_OIDC_CLIENT_SECRET)
    SOCIALACCOUNT_PROVIDERS = sign_on_settings.providers(MSH_OIDC_ISSUER, *_client)
    _account_menu += sign_on_settings.menu(asks_for_codes=bool(MSH_SECOND_FACTOR))

# --- logs ---------------------------------------------------------------------------------------
LOGGING = logging_config(
    level=env.str("LOG_LEVEL", default="INFO"),
    attempts=env.bool("MSH_LOG_ATTEMPTS", default=False),
)

# --- traces -------------------------------------------------------------------------------------
MSH_OTLP_ENDPOINT = env.str("MSH_OTLP_ENDPOINT", default="")  # of OpenTelemetry, over HTTP
MSH_TRACES_SHARE = env.float("MSH_TRACES_SHARE", default=1.0)  # of messages
INSTALLED_APPS += trace_hook.apps(MSH_OTLP_ENDPOINT, MSH_TRACES_SHARE)
