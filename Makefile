# Every command makes what it needs: a virtual environment in .venv, and in var/ the servers and
# results. Only Python 3.11+ and make have to be there.   make test ARGS="-k wire"

VENV := .venv
PY   := $(VENV)/bin/python
ARGS :=

# apt-get asks nothing.
export DEBIAN_FRONTEND := noninteractive

# The first of these that is new enough. Another one:  make test PYTHON=/path/to/python3
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(if $(shell $(name) -c "$(NEW_ENOUGH)" >/dev/null 2>&1 && echo yes),$(name))))

# Exactly the files that constraints.txt knows by hash, then the project, which needs no more. It has
# no hash as it is here: pip refuses it beside the others.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-deps
install = $(PY) tools/locked.py build project $(1) > $(VENV)/locked.txt && \
	$(PIP) --require-hashes --requirement $(VENV)/locked.txt && \
	$(PIP) --no-build-isolation --editable . --editable ./msh_client --editable ./spark_bridge

.PHONY: help demo siege audit audit-dependencies scale-out upgrade-test image-test up test test-all check docs coverage coverage-report coverage-all conformance migrations mutants bench bench-long bench-work bench-report bench-console bench-spark pictures slow-clients browser hosts engine haproxy nginx dist check-dist lock clean

help:
	@echo 'make demo         two MSHs, a bad link between them, documents, a verdict, two consoles'
	@echo 'make audit        thousands of orders through Spark over a bad link, var/audit.json; needs Java 17'
	@echo 'make siege        50 honest partners beside a hostile one: its effect on them, var/siege.json'
	@echo 'make scale-out    one MSH on many machines, some cut off, and a verdict; needs root'
	@echo 'make upgrade-test  an MSH with a million messages is migrated and restarted at work, and a verdict'
	@echo 'make image-test   builds the image, runs docker/compose.yml; needs Debian and root, not Docker'
	@echo 'make up           one MSH in var/msh on port 8000'
	@echo 'make test         the tests that need only Python and make'
	@echo 'make test-all     all tests; Spark and signatures need a JDK 17, the browser Chromium, tests/hosts root'
	@echo 'make check        ruff, mypy, import contracts, migrations, the documentation'
	@echo 'make docs         the documentation as pages in var/site, read from files or any web server'
	@echo 'make migrations   write what the models need, docs/extending.md'
	@echo 'make coverage     every branch of the protocol and the wire format is tested'
	@echo 'make coverage-all  the whole suite: at least 90 % of everything else, of each package'
	@echo 'make conformance  which tests prove each requirement, var/conformance.json'
	@echo 'make mutants      change the product in one place at a time, and check that a test fails; hours'
	@echo '                  ARGS=kept, ARGS=msh/protocol/lane.py or ARGS=msh/store/sending: a part of them'
	@echo 'make bench        how fast, next to bare PostgreSQL, var/bench.json'
	@echo 'make bench-long   the same for what takes long: growth, many partners, memory over an hour, TLS'
	@echo 'make bench-work   commits, statements, rows and bytes of one message, var/work.json'
	@echo 'make bench-console  pages of the console with a million messages, var/bench-console.json'
	@echo 'make bench-spark  the load job next to the bulk endpoint, its memory, var/bench-spark.json'
	@echo 'make bench-report  the tables and pictures of docs/performance.md, from var/bench.json'
	@echo 'make pictures     the screenshots of docs/images, from the tests of the console'
	@echo 'make slow-clients  1,000 clients that never finish: everybody else is answered within 1 s'
	@echo 'make dist         source archive, wheel, SBOM, licences, checksums of the last commit in dist/'
	@echo 'make check-dist   the same, an MSH from the installed wheel, the commands of docker/'
	@echo 'make audit-dependencies  no package of constraints.txt has a known vulnerability; needs pypi.org'
	@echo 'make lock         update constraints.txt within the limits of pyproject.toml'
	@echo 'make clean        remove .venv, var and caches'
	@echo
	@echo 'ARGS="..." is passed on:  make demo ARGS="--messages 300 --kill"'

demo: $(VENV)/ready-to-run
	$(PY) -m demo $(ARGS)

siege: $(VENV)/ready-to-run
	$(PY) -m demo.siege $(ARGS)

audit: $(VENV)/ready-to-test  # with what Spark Connect needs
	$(PY) -m demo.audit $(ARGS)

upgrade-test: $(VENV)/ready-to-test
	$(PY) -m tests.upgrade $(ARGS)

image-test: $(VENV)/ready-to-test engine
	$(PY) -m tests.image

scale-out: $(VENV)/ready-to-test hosts haproxy
	$(PY) -m tests.scale_out $(ARGS)

up: $(VENV)/ready-to-run
	$(PY) manage.py up --data var/msh --port 8000 $(ARGS)

# Otherwise each of four test processes would compile all of it at the same time.
COMPILED = $(PY) -m compileall -q -j 0 msh partners

# -c: pytest would look for its settings beside a folder that is among the options.
# What it runs without ARGS: `testpaths` in pyproject.toml.
test: $(VENV)/ready-to-test
	$(COMPILED)
	$(PY) -m pytest -c pyproject.toml -n 4 $(ARGS)

EVERYTHING := -o testpaths=tests
test-all: $(VENV)/ready-to-test browser hosts
	$(COMPILED)
	$(PY) -m pytest -c pyproject.toml $(EVERYTHING) -n 4 $(ARGS)

# The settings of an MSH are not needed for it: their checks are skipped.
migrations: $(VENV)/ready-to-test
	$(PY) -W ignore::RuntimeWarning manage.py makemigrations --skip-checks $(ARGS)

conformance: $(VENV)/ready-to-test browser hosts
	$(PY) -m pytest -c pyproject.toml $(EVERYTHING) -n 4 -q -m requirement --conformance var/conformance.json $(ARGS)

mutants: $(VENV)/ready-to-mutate
	$(PY) -m tests.mutants $(ARGS)

# Measured by tests/measuring.py; var has a file of data for each process that ran tests.
coverage: $(VENV)/ready-to-test
	mkdir -p var && rm -f var/coverage var/coverage.*
	MEASURE_COVERAGE=1 $(PY) -m pytest -c pyproject.toml -q tests/protocol tests/wire $(ARGS)
	$(MAKE) --no-print-directory coverage-report

coverage-report: $(VENV)/ready-to-test
	$(PY) -m coverage combine -q
	$(PY) -m coverage report

coverage-all: $(VENV)/ready-to-test browser hosts
	rm -rf var/coverage-all && mkdir -p var/coverage-all
	$(PY) -m coverage run --rcfile=tests/coverage.toml -m pytest -c pyproject.toml $(EVERYTHING) -n 4 $(ARGS)
	$(PY) -m coverage combine -q --rcfile=tests/coverage.toml
	@status=0; for part in msh partners msh_client spark_bridge; do echo "$$part:"; \
	$(PY) -m coverage report --rcfile=tests/coverage.toml --include="$$part/*" || status=1; done; exit $$status

bench: $(VENV)/ready-to-run
	$(PY) -m benchmarks $(ARGS)

bench-long: $(VENV)/ready-to-run haproxy
	$(PY) -m benchmarks --long $(ARGS)

bench-report: $(VENV)/ready-to-run
	$(call install,embedded bench)
	$(PY) -m benchmarks.plots
	$(PY) -m benchmarks.report_page --write

bench-work: $(VENV)/ready-to-run
	$(PY) -m benchmarks.work $(ARGS)

bench-console: $(VENV)/ready-to-run
	$(PY) -m benchmarks.console $(ARGS)

bench-spark: $(VENV)/ready-to-spark
	$(PY) -m benchmarks.spark $(ARGS)

# Each test writes what it shows; what no page of the documentation shows is removed.
pictures: $(VENV)/ready-to-test browser
	MSH_PICTURES=docs/images $(PY) -m pytest -c pyproject.toml -q tests/browser/test_page_findings.py \
	    tests/browser/test_incident.py tests/browser/test_actions.py \
	    -k 'suspended_partner_is_resumed or with_what_the_partner_says or first_message'
	$(PY) -m tools.pictures

slow-clients: $(VENV)/ready-to-test
	SLOW_CLIENTS_LIMIT=1 SLOW_CLIENTS_SECONDS=30 $(PY) -m pytest tests/web/test_slow_clients.py -rP -q $(ARGS)

# The variable silences an announcement of the theme.
SITE := NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

docs: $(VENV)/ready-to-document
	$(SITE) $(ARGS)
	@echo 'var/site/index.html'

check: $(VENV)/ready-to-test $(VENV)/ready-to-document
	@status=0; run() { echo "$$*"; "$$@" || status=1; }; \
	run $(VENV)/bin/ruff check; \
	run $(VENV)/bin/ruff format --check; \
	run $(VENV)/bin/mypy; \
	run $(VENV)/bin/lint-imports; \
	run $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run --skip-checks; \
	run $(PY) -W ignore::RuntimeWarning -m tools.migration_lint; \
	run env $(SITE); \
	exit $$status

# Reproducible: the tools have an environment of their own, with fixed versions.
dist: var/dist-tools/ready
	var/dist-tools/bin/python tools/dist.py

check-dist: dist nginx
	var/dist-tools/bin/python tools/try_wheel.py
	var/dist-tools/bin/python tools/check_docker.py
	var/dist-tools/bin/python tools/try_image.py

audit-dependencies: var/dist-tools/ready
	var/dist-tools/bin/python tools/audit_dependencies.py $(ARGS)

# nginx, and promtool of the package prometheus.
nginx:
	@PATH="$$PATH:/usr/sbin" command -v nginx >/dev/null && command -v promtool >/dev/null || \
	[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light prometheus; } || true

var/dist-tools/ready: pyproject.toml constraints.txt | $(PY)
	rm -rf var/dist-tools && $(PYTHON) -m venv var/dist-tools
	$(PY) tools/locked.py dist > var/dist-tools/locked.txt
	var/dist-tools/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--requirement var/dist-tools/locked.txt
	@touch $@

# What tests/browser, tests/hosts and tests/signatures need of Debian's packages: chromium, and what
# Playwright's own node needs (most machines have it); network namespaces, a C compiler for the clocks
# of servers, and PgBouncer; xmlsec1. Where they cannot be installed, those tests fail and say what is
# missing.
hosts:
	@{ command -v ip && command -v cc && [ -e /usr/include/stdlib.h ] && command -v xmlsec1 && \
	PATH="$$PATH:/usr/sbin" command -v pgbouncer; } >/dev/null || \
	[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	iproute2 gcc libc6-dev pgbouncer xmlsec1; } || true

# Of Debian: what builds and runs images without Docker.
engine: $(VENV)/ready-to-test
	@packages=$$($(PY) -m tests.image packages); [ -z "$$packages" ] || \
	[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$packages; } || true

# In front of an MSH, for receive_16_tls.
haproxy:
	@PATH="$$PATH:/usr/sbin" command -v haproxy >/dev/null || \
	[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy; } || true

browser:
	@command -v chromium >/dev/null || [ -n "$$CHROMIUM" ] || [ "$$(id -u)" != 0 ] || \
	! command -v apt-get >/dev/null || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium libatomic1; } || true

# For every platform and version of Python; uv reads no settings of pip: UV_DEFAULT_INDEX names an
# index that is not PyPI's.
OLDEST := 3.11.5
lock:
	rm -rf var/lock && $(PYTHON) -m venv var/lock
	var/lock/bin/pip install --quiet --disable-pip-version-check \
		$$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["lock"])')
	var/lock/bin/uv pip compile --quiet --upgrade --universal --python-version $(OLDEST) --generate-hashes \
		--all-extras --no-emit-index-url --custom-compile-command 'make lock' \
		--output-file constraints.txt pyproject.toml
	rm -rf var/lock

clean:
	rm -rf $(VENV) var build dist *.egg-info */*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/ready-to-run: pyproject.toml constraints.txt | $(PY)
	$(call install,embedded)
	@touch $@

$(VENV)/ready-to-spark: $(VENV)/ready-to-run
	$(call install,embedded spark)
	@touch $@

$(VENV)/ready-to-document: $(VENV)/ready-to-run
	$(call install,embedded docs)
	@touch $@

$(VENV)/ready-to-test: $(VENV)/ready-to-run
	$(call install,embedded spark sso otel test dev)
	@touch $@

$(VENV)/ready-to-mutate: $(VENV)/ready-to-test
	$(call install,embedded spark sso otel test dev mutants)
	@touch $@

# Everything in one go, as .ci/run needs it.
$(VENV)/ready-for-all: pyproject.toml constraints.txt | $(PY)
	$(call install,embedded spark sso otel test dev docs mutants)
	@touch $(foreach what,run spark document test mutate,$(VENV)/ready-to-$(what)) $@

$(PY):
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 || { echo \
	'Python 3.11 or newer is missing: install it, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' >/dev/null 2>&1 || { echo \
	'The venv module of $(PYTHON) is missing: install it (Debian, Ubuntu: apt install python3-venv)' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
