SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help quick test test-32 lint cross drivers torture night outage soak itest browser release-check nightly vuln
.PHONY: bench bench-memory bench-bolt bench-peers bench-check bench-accept bench-spend bench-prune pictures demo

GO ?= go
# internal/tools pins the versions of the tools. Go builds them on first use and caches them.
TOOL := $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
# Runs a command with one PostgreSQL for all of its tests.
PGTEST := $(GO) run ./internal/pgtest/cmd --
# The modules that users import or install. .ci/tag tags them.
TAGGED := . observe/otelbrim observe/prombrim grpclimit riverlimit cmd/brim
# The module lab has the dependencies of harnesses, measurements and peers.
MODULES := $(TAGGED) lab
# "make night" keeps its progress here.
NIGHT ?= build/night.jsonl
# "make cross" builds for these systems.
PLATFORMS := linux/386 linux/arm64 darwin/arm64 windows/amd64

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# "go vet" keeps its results in the build cache and "go test -vet=all" does not: apart, they save two
# seconds. "go test" compiles every package, also one without tests; "go build" would link every
# program besides. GOGC=400 saves a tenth of the time, in the linker above all, and temporary files
# in memory a fifth.
quick: ## build, vet, and the tests that need no server, in 30 seconds; random tests are shorter; tells which tests it left out
	$(GO) vet ./...
	@dir=$$(.ci/scratch); trap 'rm -rf "$$dir"' EXIT; set -x; \
	TMPDIR=$$dir GOGC=400 $(GO) test -json -short -count=1 -vet=off -p 4 -ldflags=-s ./bolt ./... | $(GO) run ./internal/quick

test: ## every test that needs no Docker, with the race detector and coverage; starts a PostgreSQL and a Redis
	@dir=$$(.ci/scratch); trap 'rm -rf "$$dir"' EXIT; set -x; TMPDIR=$$dir $(PGTEST) .ci/test $(TESTFLAGS)

lint: ## format, vet, staticcheck and more, by golangci-lint in the version of internal/tools
	@echo "the first run builds golangci-lint, which takes five minutes; go keeps it in its build cache"
	for module in $(MODULES); do (cd $$module && $(TOOL) golangci-lint run --allow-parallel-runners ./...); done
	cd sqlite/drivers && $(TOOL) golangci-lint run --allow-parallel-runners ./... # over one driver; mattn's needs minutes of cgo

test-32: ## the packages without a file and a server, where an int has 32 bits; on Linux only
	@GO="$(GO)" .ci/test32 $(TESTFLAGS)

cross: ## build and vet the modules of users for other systems, or for PLATFORMS="linux/386 windows/amd64"
	for platform in $(PLATFORMS); do for module in $(TAGGED); do (cd $$module && \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} && $(GO) build ./... && $(GO) vet ./...); done; done

nightly: cross test-32 drivers itest browser release-check bench-accept torture night ## all that takes too long for each change, with new seeds

bench: bench-memory bench-bolt ## measure the backends against the libraries below them, in one run

bench-memory: ## decisions in memory against golang.org/x/time/rate behind a sync.Map, and bytes per bucket
	$(GO) -C lab/bench run . -only 'brim memory,brim refusals over memory' -cell 'in memory'
	$(GO) test -run '^$$' -bench BytesPerBucket -benchtime 1x ./memory

bench-bolt: ## decisions in a bbolt file against one db.Update per decision
	$(GO) -C lab/bench run . -only 'brim bolt' cells

bench-peers: ## brim, its peers and bare references, in twenty minutes; starts the servers; PEERSFLAGS=-quick or -large
	$(GO) -C lab/bench run . -out $(CURDIR)/lab/bench/results $(PEERSFLAGS)

bench-check: ## three minutes of bench-peers: no ratio may be below 0.85 of that in AGAINST, the results.json of another run
	$(GO) -C lab/bench run . -out $(CURDIR)/lab/bench/results/check -check $(abspath $(or $(AGAINST),lab/bench/results/results.json)) $(PEERSFLAGS)

bench-accept: ## check the promises of leases and remembered refusals at full load
	$(GO) -C lab/bench run . leases refusals

bench-spend: ## spends on every ledger against bare writes, and declines against approvals; starts PostgreSQL; SPENDFLAGS=-help
	$(GO) -C lab/bench run . $(SPENDFLAGS) spend declines

bench-prune: ## charges beside a Prune on every ledger, and without it; starts PostgreSQL; PRUNEFLAGS=-help
	$(GO) -C lab/bench run . $(PRUNEFLAGS) prune

pictures: ## draw every picture of docs anew
	$(GO) -C cmd/brim run ./internal/draw -docs ../../docs

torture: ## for hours: 10^6 random operations per store, a million keys, a thousand kills; then the tests of lab without a budget
	BRIM_TORTURE=1 $(PGTEST) $(GO) test -race -count 1 -timeout 4h ./...
	BRIM_TORTURE=1 $(PGTEST) $(GO) -C lab test -count 1 -p 1 -v -timeout 4h $$($(GO) -C lab list ./... | grep -vE '/(itest|browser|release|crash|lin|sched|soak)$$')

# An interrupt loses one slice of some minutes: the next run goes on in the same file.
night: ## random sequences, harnesses, fuzz targets and the soak by budgets; NIGHT=FILE keeps the progress; NIGHTFLAGS=-help
	@mkdir -p "$(dir $(NIGHT))"; dir=$$(.ci/scratch); trap 'rm -rf "$$dir"' EXIT; set -x; \
	TMPDIR=$$dir $(GO) -C lab run ./night $(NIGHTFLAGS) $(abspath $(NIGHT))

outage: ## what passes beyond a limit while a store is slow or down and clients hang up, in ten minutes; OUT=FILE keeps JSON
	BRIM_TORTURE=1 $(PGTEST) $(GO) -C lab test -count 1 -v -timeout 1h ./outage $(if $(OUT),-out $(abspath $(OUT)))

soak: ## a subject at full load for SOAK, 4h by default: no resource may grow; another one each time, or SOAK_OF=bolt
	SOAK=$${SOAK:-4h} $(GO) -C lab test -count 1 -v -timeout 24h ./soak

browser: ## package ui in headless Chromium, or BRIM_CHROMIUM, in eight minutes; BRIM_SCREENSHOTS=DIR keeps pictures
	$(GO) -C lab test -count 1 ./browser

# The build may download modules: only its errors are shown.
demo: ## kill processes and let three of them spend together: limits and budgets in a bbolt file hold
	@echo "building (seconds; about a minute on a machine that has built no Go before) ..."
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) -C cmd/brim build -o "$$dir/demo" ./demo 2>"$$dir/log" || { cat "$$dir/log" >&2; exit 1; }; "$$dir/demo"

drivers: ## packages sqlite and sqliteledger over three drivers of SQLite, and through power cuts; needs cgo
	for driver in modernc mattn ncruces; do (cd sqlite/drivers && \
		$(TOOL) golangci-lint run --allow-parallel-runners --build-tags $$driver ./... && \
		BRIM_TORTURE=1 $(GO) test -count 1 -timeout 4h -tags $$driver ./...); done
	cd lab && $(TOOL) golangci-lint run --allow-parallel-runners --build-tags sqlite ./crash
	$(GO) -C lab test -count 1 -v -timeout 4h -tags sqlite ./crash

itest: ## PostgreSQL 14 to 18 and clusters of Redis 6.2, 7 and 8 and Valkey 9 in containers; needs Docker; ITESTFLAGS goes to "go test"
	GO='$(GO)' lab/itest/run.sh -race -timeout 30m $(ITESTFLAGS)

vuln: ## known vulnerabilities in the dependencies of the modules of users
	for module in $(TAGGED); do $(GO) -C $$module run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...; done

release-check: ## a snapshot of a release for all platforms in dist, and the modules and the tutorial as a user gets them
	$(GO) -C lab test -count=1 ./release
	$(GO) tool -modfile=$(CURDIR)/internal/tools/goreleaser.mod goreleaser check
	$(GO) tool -modfile=$(CURDIR)/internal/tools/goreleaser.mod goreleaser release --snapshot --clean --skip=sbom
