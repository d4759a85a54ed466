SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help quick test test-32 lint cross cover torture torture-quick soak itest vuln
.PHONY: release-check release browser
.PHONY: bench bench-memory bench-bolt bench-peers bench-check bench-accept bench-spend pictures demo

GO ?= go
# internal/tools pins the versions of the tools. Go builds them on first use and caches them.
TOOL := $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
# Runs a command with one PostgreSQL for all of its tests, and prints how many tests used it.
PGTEST := $(GO) run ./internal/pgtest/cmd --
# These modules stand apart because of their dependencies.
NESTED := bench internal/itest internal/browser observe/otelbrim observe/prombrim grpclimit docs/observability httplimit/sfvtest examples/frameworks torture internal/release
# Tests of these modules are not part of "make test": they need Docker, a browser, or minutes of
# building. "make itest", "make browser" and "make release-check" run them.
APART := internal/itest internal/browser internal/release
# "make cross" builds for these systems. "make lint" does so for the modules that users import: the
# others have large dependencies, which take minutes for each system, and the workflow builds them.
PLATFORMS := linux/386 linux/arm64 darwin/arm64 windows/amd64
MODULES := . $(NESTED)
# "make release" tags these modules. Each has a consumer in internal/release/testdata.
IMPORTED := . observe/otelbrim observe/prombrim grpclimit

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The packages whose tests take longest, so that they begin first. They often wait for a server.
LONG := ./postgres ./spend/pgledger ./redisstore ./bolt

# "go vet" keeps its results in the build cache and "go test -vet=all" does not: apart, they save two
# seconds. "go test" compiles every package, also one without tests; "go build" would link every
# program besides. GOGC=400 saves a tenth of the time, in the linker above all, and temporary files
# in memory a fifth.
quick: ## build, vet, and the tests that need no server, in 20 seconds; random tests are shorter
	$(GO) vet ./...
	@dir=$$(.ci/scratch); trap 'rm -rf "$$dir"' EXIT; set -x; \
	TMPDIR=$$dir GOGC=400 $(GO) test -short -count=1 -vet=off -p 4 -ldflags=-s ./bolt ./cmd/brim ./...

test: test-32 ## every test that needs no Docker, with the race detector; starts a PostgreSQL and a Redis
	$(PGTEST) $(GO) test -race -ldflags=-w -timeout 20m -p 3 $(TESTFLAGS) $(LONG) ./...
	for module in $(filter-out $(APART) torture,$(NESTED)); do (cd $$module && $(GO) test -race ./...); done
	$(MAKE) --no-print-directory torture-quick

test-32: ## the packages without a file and a server, where an int has 32 bits; on Linux only
	@GO="$(GO)" .ci/test32 $(TESTFLAGS)

lint: ## formatting, vet, staticcheck and golangci-lint in the versions of internal/tools; then cross
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [[ -n "$$unformatted" ]]; then echo "not formatted; run gofumpt -w on:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) staticcheck ./...
	for module in . $(NESTED); do (cd $$module && $(GO) vet ./... && $(TOOL) golangci-lint run ./...); done
	$(MAKE) --no-print-directory cross MODULES="$(IMPORTED)"

cross: ## build and vet every module for other systems, or for PLATFORMS="linux/386 windows/amd64"
	for platform in $(PLATFORMS); do for module in $(MODULES); do (cd $$module && \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} && $(GO) build ./... && $(GO) vet ./...); done; done

# The packages that decide. Their tests share conformance suites and servers, and a backend's
# code also runs in the tests of the ledger over it. So a statement counts if the tests of any
# of these packages run it.
COVERED := . ./store ./memory ./bolt ./internal/boltfile ./postgres ./redisstore \
	./spend ./spend/memledger ./spend/boltledger ./spend/pgledger
COVERAGE := 90

cover: ## coverage of the packages that decide; fails below 90 %
	@profile=$$(mktemp); trap 'rm -f "$$profile"' EXIT; \
	$(PGTEST) $(GO) test -timeout 20m -coverprofile="$$profile" \
		-coverpkg="$$($(GO) list $(COVERED) | paste -s -d, -)" $(COVERED) | sed 's/ of statements in .*//'; \
	awk -v least=$(COVERAGE) -v wanted=$(words $(COVERED)) -f .ci/coverage.awk "$$profile"

bench: bench-memory bench-bolt ## measure the backends against the libraries below them, in one run

bench-memory: ## decisions in memory against golang.org/x/time/rate behind a sync.Map, and bytes per bucket
	cd bench && $(GO) test -run '^$$' -bench 'Memory|Refusals' -benchtime 7x -cpu 1,2
	$(GO) test -run '^$$' -bench BytesPerBucket -benchtime 1x ./memory

bench-bolt: ## decisions in a bbolt file against one db.Update per decision
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./bolt

bench-peers: ## brim, its peers and bare references, in an hour and a half; starts the servers; PEERSFLAGS=-quick or -large
	cd bench && $(GO) run ./peers -out $(CURDIR)/bench/results $(PEERSFLAGS)
	$(GO) run ./internal/draw -results bench/results

bench-check: ## three minutes of bench-peers: no ratio may be below 0.85 of that in AGAINST, the results.json of another run
	cd bench && $(GO) run ./peers -out $(CURDIR)/bench/results/check -check $(abspath $(or $(AGAINST),bench/results/results.json)) $(PEERSFLAGS)

bench-accept: ## check the promises of leases and remembered refusals at full load
	cd bench && $(GO) run ./accept

bench-spend: ## spends on every ledger against bare writes, and declines against approvals; starts PostgreSQL; SPENDFLAGS=-help
	$(GO) run ./spend/internal/spendbench $(SPENDFLAGS)

pictures: ## draw every picture of docs anew
	$(GO) run ./internal/draw

torture: ## for hours: 10^6 random operations per store, a million keys, a thousand kills; then every harness of torture
	BRIM_TORTURE=1 $(PGTEST) $(GO) test -race -count 1 -timeout 4h ./...
	BRIM_TORTURE=1 $(PGTEST) $(GO) -C torture test -count 1 -p 1 -v -timeout 4h ./...

torture-quick: ## some seconds of every harness of torture; BRIM_SEED repeats a run
	$(PGTEST) $(GO) -C torture test -count 1 ./...

soak: ## one subject at full load for SOAK, 4h by default: no resource may grow; the day takes turns, or SOAK_OF=bolt
	SOAK=$${SOAK:-4h} $(GO) test -count 1 -v -timeout 24h -run TestFullLoad ./internal/soak

browser: ## package ui in headless Chromium, in two minutes; BRIM_SCREENSHOTS=DIR keeps pictures
	@chromium=$${BRIM_CHROMIUM:-$$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}; \
	if [[ -z "$$chromium" ]]; then echo "there is no Chromium on PATH; install it, on Debian by: apt-get install --no-install-recommends chromium"; exit 1; fi; \
	BRIM_CHROMIUM="$$chromium" $(GO) -C internal/browser test -count 1 ./...

demo: ## replay a day of a web server's log through a bbolt file, kill -9 it, and show that the limits survived
	$(GO) run ./cmd/brim/demo

itest: ## PostgreSQL 14 to 18 and a Redis Cluster in containers; needs Docker; ITESTFLAGS goes to "go test"
	GO='$(GO)' internal/itest/run.sh -race -timeout 30m $(ITESTFLAGS)

vuln: ## known vulnerabilities in the dependencies
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...

release-check: ## the tutorial and consumers; every file of a release twice; API against the last tag; licences
	$(GO) -C internal/release test -count=1 ./...
	$(GO) -C internal/release run . check $(if $(VERSION),-version $(VERSION)) $(RELEASEFLAGS)

release: ## print the steps that tag VERSION=v1.2.3, the root first; DO=1 performs them, and pushes nothing
	$(GO) -C internal/release run . tag -version $(VERSION) $(if $(DO),-do)
