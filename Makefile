# Every target sets up what it needs: a virtual environment in .venv with the packages and their tools, renewed when a
# pyproject.toml of theirs changes. A fresh machine needs Python 3.11 with venv, git and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The three packages, in editable form, and what they need in the releases of deploy/locks, by hash.
PROJECTS := $(wildcard packages/*/pyproject.toml)
EDITABLE := --editable packages/kube-rules --editable packages/kube-standin --editable packages/reprieve
LOCKED = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# Two more than there are cores: tests that wait for processes and clocks leave theirs to others.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# Compiled modules are kept, also where the environment says otherwise: tests start hundreds of processes.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest

.PHONY: demo test beside-wheels test-wheels test-kube-rules test-kube-standin test-new lint bench docs changelog lock release-check clean

demo: $(READY)
	@$(BIN)/reprieve demo

# The environments, lint and in CI the documentation take one core, one after the other: they run beside the wheels'
# tests, which have an environment of their own. What holds a server to the clock has the machine to itself, when all
# else is done.
NEEDED = $(VENV)/.helm-ready $(VENV)/.chromium-ready $(VENV)/.postgres-ready $(VENV)/.promtool-ready
BESIDE = lint
test:
	$(MAKE) --jobs=2 --output-sync=line beside-wheels test-wheels
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not timed" packages/reprieve/tests tests
	$(PYTEST) -m timed $(TIMED)

beside-wheels:
	@for target in $(NEEDED) $(BESIDE); do $(MAKE) $$target || exit 1; done

# Only what is collected takes time: the modules with the mark.
TIMED = $(shell grep -rl --include='test_*.py' 'mark\.timed' packages/*/tests tests)

# These two from their wheels alone, in an environment without the rest of the repository.
WHEELS = kube-rules kube-standin
test-kube-rules: WHEELS = kube-rules
test-kube-standin: WHEELS = kube-standin
test-wheels test-kube-rules test-kube-standin:
	"$(PYTHON)" tools/check_wheels.py $(WHEELS) -n $(WORKERS) --dist worksteal -m "not timed"

# Properties on new random clusters, for about SECONDS; one that fails is printed as a case.
SECONDS ?= 90
PROPERTIES ?= $(addprefix packages/reprieve/tests/,properties preemption scheduling plugins cluster)
test-new: $(READY)
	$(PYTEST) --new-clusters $(SECONDS) $(PROPERTIES)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/lock.py --check

bench: $(READY)
	@$(BIN)/reprieve bench

# The documentation site, in build/site; whatever the generator warns of is an error.
docs: $(VENV)/.docs-ready
	$(BIN)/python tools/draw_rooms.py --check
	$(BIN)/python tools/write_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

changelog: $(READY)
	@$(BIN)/towncrier build --draft --version "$$($(BIN)/python -m reprieve --version | cut -d' ' -f2)"

# Pin the newest releases that pyproject.toml allows, with hashes (docs/release.md). `make lint` checks the locks.
lock: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'reprieve[release]'
	$(BIN)/python tools/lock.py

# Wheel and sdist, installed and tried in a clean environment (docs/release.md).
release-check:
	"$(PYTHON)" tools/check_release.py

# Helm's engine renders the chart in tests/deploy. There are no wheels of it for every platform: without it that test is
# skipped, and nothing else needs it. An extra of what is installed already: nothing is built again.
$(VENV)/.helm-ready: $(READY)
	@$(LOCKED) --only-binary helm-python-sdk -r deploy/locks/helm.txt \
		|| echo "no Helm for this machine: the chart is not rendered" >&2
	@touch $@

# Debian's Chromium, for the tests of the page. Where it cannot be installed they are skipped, and counted.
$(VENV)/.chromium-ready:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; } \
		|| echo "no Chromium for this machine: the page is not judged in a browser" >&2
	@mkdir -p $(@D) && touch $@

# Debian's PostgreSQL, for the tests of the database of records. Where it cannot be installed they are skipped, and
# counted. One apt-get at a time.
$(VENV)/.postgres-ready: | $(VENV)/.chromium-ready
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1; } \
		|| echo "no PostgreSQL for this machine: the history on it is not judged" >&2
	@mkdir -p $(@D) && touch $@

# Prometheus' own tool, out of Debian's package, for the tests of the alerts; no server is installed. Where it cannot be
# had they are skipped, and counted.
$(VENV)/.promtool-ready: $(READY) | $(VENV)/.postgres-ready
	@command -v promtool >/dev/null || { cd $(BIN) && test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& { apt-get update -qq && apt-get download -qq prometheus \
		&& dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool; } >/dev/null 2>&1; } \
		|| echo "no promtool for this machine: the alerts are not evaluated" >&2
	@rm -f $(BIN)/prometheus_*.deb
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find packages tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(PROJECTS) deploy/locks/build.txt deploy/locks/dev.txt
	@echo "setting up $(VENV) ..." >&2
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "reprieve needs Python 3.11 or newer")'
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(LOCKED) -r deploy/locks/build.txt -r deploy/locks/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

$(VENV)/.docs-ready: $(READY)
	@$(LOCKED) -r deploy/locks/docs.txt
	@touch $@
