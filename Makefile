# Each target installs what it needs: Python packages into .venv, Debian packages through apt-get.
PYTHON ?= python3

SERVERS := sqlite3 postgresql mariadb-server-core|mariadb-server mariadb-client-core|mariadb-client
DRIVERS := unixodbc odbc-mariadb
FAULTS := libfaketime strace iproute2 pgbouncer haproxy galera-4 rsync lsof
GUIDES := curl php-cli php-pgsql php-mysql
MODELS := spin gcc libc6-dev
LOCKS := zookeeper nats-server
JDBC := libh2-java libhsqldb-java libderby-java libderbyclient-java
ACTIVEMQ := activemq libpostgresql-jdbc-java libmariadb-java default-jdk-headless maven
# Beside Debian's: those of Maven's central repository with which the tests of tests/interop run, too.
OTHERS := 5.19.1 6.3.1
SPARK := libxerial-sqlite-jdbc-java default-jre-headless
BIN := .venv/bin
# Three more than there are processors, up to six: tests wait for servers and for each other.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$(( n < 4 ? n + 3 : 6 )))
# make test WHOLE=--whole also asks the same again, on one more database and by one more driver.
WHOLE ?=

# If it is set, each Python that a test starts compiles the package again: a quarter of a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-spark test interop $(OTHERS:%=interop-%) quick lint fuzz bench site docs dist sql packages mysql nats maven clean

help:
	@echo "make demo    watch messages survive a killed broker, on SQLite; demo-spark also asks Spark SQL"
	@echo "make test    lint, then all tests, on SQLite, PostgreSQL, MariaDB and MySQL, and beside ActiveMQ"
	@echo "make quick   lint, unit tests, and the contract in memory and on SQLite"
	@echo "make lint    only ruff, codespell and mypy"
	@echo "make fuzz    fuzz everything that reads bytes of others, each for a minute"
	@echo "make bench   measure the store compared with the bare database, on this machine"
	@echo "make docs    build the documentation site in .build/docs, and open every page in Chromium"
	@echo "make dist    build wheel and sdist in dist/, and check them"
	@echo "make sql     write the scripts in sql/ from the definitions of the tables"
	@echo "make clean   remove .venv, caches and the compiled core; keep Debian packages and data"

DEMO := jdbcstore demo --recording tests/fixtures/activemq-5.17.2/postgres.jsonl

demo: .venv/demo .venv/compiled
	$(BIN)/$(DEMO)

# Without Spark the demo still runs, and says what is missing.
demo-spark: .venv/demo .venv/compiled
	@$(MAKE) --no-print-directory .venv/spark || echo "PySpark cannot be installed here: the demo ends without it" >&2
	@.ci/packages $(SPARK) || echo "Java and SQLite's JDBC driver cannot be installed here, see above" >&2
	$(BIN)/$(DEMO) --ask

# What must be tested, not skipped; MySQL where .ci/mysql could unpack it, the rest where .ci/maven has its jars.
test: export JDBCSTORE_REQUIRE ?= sqlite,postgresql,mariadb,mariadb-pyodbc,spark,spin,zookeeper,nats$(shell test ! -x .build/nats/nats-server || echo ,nats-newer)$(shell test ! -d .build/galera || echo ,galera)$(shell test ! -d .build/patroni || echo ,patroni)$(shell test ! -d .build/mysql/data || echo ,mysql)$(shell test ! -d .build/s3 || echo ,s3)$(shell test ! -d .build/artemis || echo ,artemis)$(shell test ! -d .build/drivers || echo ,drivers)$(shell test ! -d .build/axe || echo ,axe)$(shell test ! -d .build/maven || echo ,connector-j)
test: packages mysql maven .venv/dev .venv/compiled
	$(MAKE) --no-print-directory --jobs 3 --output-sync lint site interop
	$(BIN)/pytest $(WHOLE) --numprocesses $(WORKERS) --dist loadgroup

# The tests of interop beside other versions of ActiveMQ: the newest, and with WHOLE all. They wait more than they
# work, and so run beside each other and the lint.
interop: $(if $(WHOLE),$(OTHERS:%=interop-%),interop-$(lastword $(OTHERS)))

$(OTHERS:%=interop-%): interop-%:
	JDBCSTORE_ACTIVEMQ=$* JDBCSTORE_REQUIRE="$$JDBCSTORE_REQUIRE$$(test ! -d .build/activemq/$* || echo ,activemq)" \
	  $(BIN)/pytest $(WHOLE) --numprocesses $(WORKERS) --dist loadgroup tests/interop

# Quick feedback before make test; no server is started.
quick: export JDBCSTORE_REQUIRE ?= sqlite
quick: lint
	$(BIN)/pytest --numprocesses 2 -m "not slow" --backends memory,sqlite tests/unit tests/contract

lint: .venv/dev .venv/compiled
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell . .ci .github
	$(BIN)/mypy

fuzz: .venv/dev .venv/compiled
	$(BIN)/pip install --quiet --editable '.[fuzzing]'
	$(BIN)/python -m tests.fuzzing

bench: packages .venv/dev .venv/compiled
	$(BIN)/python -m benchmarks

# A warning is an error: a broken link, a page that is not in the navigation, a docstring that does not parse.
site: .venv/docs
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -b html -j auto -d .build/doctrees docs .build/docs

docs: site
	@.ci/packages chromium || echo "Chromium cannot be installed here: no page is opened" >&2
	$(BIN)/python -m tests.docs.site .build/docs

dist: .venv/release
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

sql: .venv/core
	$(BIN)/python -m jdbcstore.database.migrations sql

packages:
	.ci/packages $(foreach name,$(SERVERS) $(DRIVERS) $(JDBC) $(ACTIVEMQ) $(SPARK) $(FAULTS) $(GUIDES) $(LOCKS) $(MODELS),'$(name)')
	@.ci/packages chromium || echo "Chromium cannot be installed here: tests in a browser are skipped" >&2

mysql: .venv/created
	.ci/mysql
	.ci/galera
	.ci/patroni

# A nats-server that can sync before it acknowledges, which no Debian has, from its source; where there is a Go.
nats:
	GOBIN=$(CURDIR)/.build/nats go install github.com/nats-io/nats-server/v2@v2.15.2

maven: packages
	.ci/maven .build/maven tests/interop/pom.xml
	for version in $(OTHERS); do \
	  .ci/maven .build/activemq/$$version tests/interop/activemq.xml -Dactivemq.version=$$version || exit; \
	done
	.ci/maven .build/artemis tests/interop/artemis/pom.xml
	.ci/maven .build/s3 tests/analytics/s3.xml
	.ci/maven .build/drivers tests/database/drivers/pom.xml
	.ci/maven .build/axe tests/broker/console/pom.xml

.venv/core: .venv/created pyproject.toml
	$(BIN)/pip install --quiet --editable '.[compile]'
	touch $@

# Rebuilt when one of its sources changes; without a C compiler this says so, and everything runs as Python.
.venv/compiled: .venv/core $(shell find jdbcstore -name '*_cy.py') jdbcstore/util/core/slots.pxd jdbcstore/util/core/build.py
	@JDBCSTORE_PURE=1 $(BIN)/python -m jdbcstore.util.core
	@touch $@

.venv/demo: .venv/core
	$(BIN)/pip install --quiet --editable '.[demo]'
	touch $@

.venv/spark: .venv/core
	@echo "Installing PySpark, which is half a gigabyte"
	$(BIN)/pip install --quiet --editable '.[spark]'
	touch $@

.venv/dev: .venv/created pyproject.toml
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ .venv/core .venv/demo .venv/spark

# The site describes every module, and so imports what they need.
.venv/docs: .venv/dev
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

.venv/release: .venv/created pyproject.toml
	$(BIN)/pip install --quiet --editable '.[release]'
	touch $@

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is older than 3.11: make PYTHON=python3.11")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || .ci/packages \
	  "$$($(PYTHON) -c 'import sys; print("python3.%d-venv|python3-venv" % sys.version_info[1])')"
	$(PYTHON) -m venv .venv
	touch $@

clean:
	find jdbcstore -name '*_c.*' -delete
	rm -rf .venv .build docs/generated
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -prune -exec rm -rf {} +
