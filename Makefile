# Every target says what it is for after "##"; `make` alone prints them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)
LINT_VERSION := v2.15.0
LINT := .tools/golangci-lint-$(LINT_VERSION)
PKG ?= ./...
FUZZTIME ?= 30s
TESTFLAGS ?=
# The tests of one run share one PostgreSQL: pgserver finds or starts it, prints which, and stops it at the end.
WITH_POSTGRES = go run ./internal/pgtest/cmd/pgserver run --
UNIT_PACKAGES = $$(go list ./... | grep -v /integration_test)
JS := integration_test/js

##@ Use

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z\/-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: need/go need/cc ## Build bin/shapeserver
	go build -ldflags '$(LDFLAGS)' -o bin/shapeserver ./cmd/shapeserver

.PHONY: run
run: build ## Start a private Postgres with a demo table and serve it; prints what to type next
	bin/shapeserver dev

##@ Test

.PHONY: test
test: need/go need/cc js ## Run every test with the race detector; says which PostgreSQL was used
	$(WITH_POSTGRES) go test -race -timeout 45m $(TESTFLAGS) ./...

.PHONY: test/unit
test/unit: need/go need/cc ## Run the packages' own tests, without integration_test
	$(WITH_POSTGRES) go test -race -timeout 10m $(TESTFLAGS) $(UNIT_PACKAGES)

.PHONY: test/integration
test/integration: need/go need/cc js ## Run the whole server against a real PostgreSQL and the real npm packages
	$(WITH_POSTGRES) go test -race -timeout 45m $(TESTFLAGS) ./integration_test/

.PHONY: test/repeat
test/repeat: need/go need/cc ## Run the race and kill tests COUNT=20 times in a row
	$(WITH_POSTGRES) go test -race -timeout 60m -count $${COUNT:-20} -failfast \
		-run '^(TestConcurrentFirstRequests|TestWritesRacingCreation|TestKillUnderLoad)$$' ./integration_test/

.PHONY: test/faults
test/faults: need/go need/cc ## Run the tests of every reported fault of classes 1, 2 and 5, those on clusters of their own too
	$(WITH_POSTGRES) env SHAPESERVER_TEST_FAULTS=slow go test -timeout 20m \
		-run '^(Test(Life|Order|Schema)Faults|TestEveryFaultHasATest|TestEvictionSparesWhatIsUsed|TestDatabaseIsReplaced|TestHandOver|TestTransactionIDsWrap|TestPositionsBeyond4GiB)$$' $(TESTFLAGS) ./integration_test/

.PHONY: soak
soak: need/go need/cc ## Compare 200 shapes with PostgreSQL for DURATION=30m under random harm; SEED=n repeats a run's choices
	$(WITH_POSTGRES) env SHAPESERVER_SOAK_DURATION=$${DURATION:-30m} SHAPESERVER_SOAK_SEED=$${SEED:-} \
		go test -timeout 24h -v -run '^TestSoak$$' $(TESTFLAGS) ./integration_test/

.PHONY: soak/suspend
soak/suspend: need/go need/cc ## Suspend and resume consumers CYCLES=1000000 times, and look for what is left
	SHAPESERVER_TEST_CYCLES=$${CYCLES:-1000000} go test -timeout 60m -v -run '^TestSuspendAndResumeLeakNothing$$' $(TESTFLAGS) ./shapecache/

.PHONY: test/crash
test/crash: need/go need/cc ## Fail, stop and kill the server at every step of a shape's life, with 1 and with 200 shapes
	$(WITH_POSTGRES) env SHAPESERVER_TEST_CRASH=all go test -timeout 90m -failfast -v -run '^TestFailpoints$$' $(TESTFLAGS) ./integration_test/

.PHONY: test/fuzz
test/fuzz: need/go need/cc ## Fuzz each parser for FUZZTIME=30s
	$(WITH_POSTGRES) scripts/fuzz.sh $(FUZZTIME)

.PHONY: soak/where
soak/where: need/go need/cc ## Compare where clauses with PostgreSQL for DURATION=10m, or PAIRS=n; also PG=17, LOCALE=en_US.UTF-8, SEED=n
	scripts/soak-where.sh

.PHONY: bench
bench: build ## Run the benchmarks and print their table
	go run ./bench

.PHONY: cover
cover: need/go need/cc ## Measure test coverage of PKG=./... into coverage.txt
	$(WITH_POSTGRES) go test -timeout 20m -coverprofile coverage.txt -coverpkg ./... $(PKG)
	go tool cover -func coverage.txt | tail -n 1

##@ Change

.PHONY: lint
lint: $(LINT) need/cc ## Run the linters
	$(LINT) run --allow-parallel-runners

.PHONY: fmt
fmt: $(LINT) ## Format the code and its imports
	$(LINT) fmt

.PHONY: tidy-check
tidy-check: need/go ## Fail when go.mod or go.sum are not what the code needs
	go mod tidy -diff

.PHONY: migrate/new
migrate/new: ## Start a migration NAME=what_it_does
	scripts/migrate-new.sh '$(NAME)'

.PHONY: ci
ci: lint tidy-check build test ## Run what CI runs, in its order (.ci/run also installs what is missing)

# What the targets above need.

$(LINT): | need/go
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv .tools/golangci-lint $@

.PHONY: need/go
need/go:
	@command -v go >/dev/null || { echo "missing: go 1.26 or newer (https://go.dev/dl), to build" >&2; exit 1; }

# The parser of where clauses is Postgres's own, in C.
.PHONY: need/cc
need/cc: need/go
	@command -v "$$(go env CC | cut -d' ' -f1)" >/dev/null || { echo "missing: a C compiler ($$(go env CC); on Debian: apt-get install gcc libc6-dev), to build Postgres's SQL parser" >&2; exit 1; }
	@[ "$$(go env CGO_ENABLED)" = 1 ] || { echo "cgo is off (CGO_ENABLED=0): unset it, to build Postgres's SQL parser" >&2; exit 1; }

.PHONY: js
js:
	@if command -v npm >/dev/null && command -v node >/dev/null; then \
		[ $(JS)/node_modules/.package-lock.json -nt $(JS)/package-lock.json ] || \
			(cd $(JS) && npm ci --ignore-scripts --omit=peer --no-audit --no-fund && touch node_modules/.package-lock.json); \
	else \
		echo "missing: node 20 or newer and npm: the tests that run npm packages will be skipped" >&2; \
	fi
