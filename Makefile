# Everything runs from .venv; `make setup` builds it from the lock file and is a no-op while that has not changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete

.PHONY: setup system demo test test-long test-all test-cluster tools oracle lint schemas bench mutants fuzz fmt lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("admc needs Python 3.11 or later, and this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "setup 1/4: a Python environment in $(VENV) (some seconds)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup 2/4: the packages of requirements.lock (1 to 4 minutes; less where pip has them already)"
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --require-hashes -r requirements.lock
	@echo "setup 3/4: admc itself (some seconds)"
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "setup 4/4: all modules, compiled for a fast start (up to a minute)"
	@$(BIN)/python -m compileall -q $(VENV)/lib admc dsl solver emitters xds_server
	@touch $@
	@echo "setup is done: $(BIN)/admc --help"

demo: setup
	$(BIN)/admc try examples/hotel_reservation/policies.adm

# What tests need of the machine, installed as root on Debian. No other target touches the system.
system:
	$(PYTHON) -m tests.system

# At most six minutes on two cores.
test: setup
	$(BIN)/python -m tests.run -m "not long and not cluster"

# What `make test` leaves out, and three times as many examples of each property.
test-long: setup
	$(BIN)/python -m tests.run -m "(long or hypothesis) and not cluster" --hypothesis-profile long

test-all: test test-long

# The programs of a cluster, once, into the user's cache: 20 to 30 minutes of CPU (docs/cluster/testing.md).
tools: setup
	$(BIN)/python -m tests.cluster.tools

# What needs them; what the cache lacks is skipped.
test-cluster: setup
	$(BIN)/python -m tests.cluster

# What Istio's own code makes of random meshes, recorded for the tests: 15 to 40 minutes of CPU the first time, Go 1.26.
oracle: setup
	$(BIN)/python -m tests.istio.oracle

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.words
	$(BIN)/python -m tests.names

fmt: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Writes the JSON Schemas of documents from their types.
schemas: setup
	$(BIN)/python -m tests.schemas

bench: setup
	$(BIN)/python -m tests.bench

# Mistakes in what is emitted, and by what the comparison notices each.
mutants: setup
	$(BIN)/python -m tests.fidelity.mutants

# All pairs of kinds on all sides, applications in namespaces, then random programs until the time is up; SEED repeats.
MINUTES ?= 30
fuzz: setup
	$(BIN)/python -m tests.fidelity.long --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Resolve the newest versions that pyproject.toml allows; commit the result.
lock:
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv
	.cache/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --extra dev --extra cluster --extra istio --extra traces pyproject.toml requirements-build.in -o requirements.lock

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
