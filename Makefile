SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test lint cover pictures bench bench-memory bench-bolt bench-peers bench-accept torture demo itest vuln

GO ?= go
# Pinned in internal/tools/go.mod, built on first use, kept in Go's build cache.
TOOL := $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
# Runs a command with one PostgreSQL for all of its tests, and prints how many used it.
PGTEST := $(GO) run ./internal/pgtest/cmd --
# Modules of their own, for what they need; internal/itest's tests need Docker.
NESTED := bench internal/itest docs/observability httplimit/sfvtest examples/frameworks

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## every test that needs no Docker, with the race detector; starts a PostgreSQL of its own
	$(PGTEST) $(GO) test -race -timeout 10m $(TESTFLAGS) ./...
	for module in $(filter-out internal/itest,$(NESTED)); do (cd $$module && $(GO) test -race ./...); done

lint: ## formatting, vet, staticcheck, golangci-lint, with the versions that internal/tools pins
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [[ -n "$$unformatted" ]]; then echo "not formatted; run gofumpt -w on:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) staticcheck ./...
	for module in . $(NESTED); do (cd $$module && $(GO) vet ./... && $(TOOL) golangci-lint run ./...); done

# What each of these tests of its own package must reach, in percent.
COVERED := . ./store ./memory ./bolt
COVERAGE := 90

cover: ## coverage of the packages that decide; fails under 90 %
	@$(GO) test -cover $(COVERED) | awk -v least=$(COVERAGE) '{ print } \
		match($$0, /coverage: [0-9.]+/) { n++; if (substr($$0, RSTART + 10, RLENGTH - 10) + 0 < least) { low = 1; print "under " least " %: " $$2 } } \
		END { exit low || n != $(words $(COVERED)) }'

bench: bench-memory bench-bolt ## measure against what the backends stand on, both in one run

bench-memory: ## decisions in memory against golang.org/x/time/rate behind a sync.Map, and bytes per bucket
	cd bench && $(GO) test -run '^$$' -bench 'Memory|Refusals' -benchtime 7x -cpu 1,2
	$(GO) test -run '^$$' -bench BytesPerBucket -benchtime 1x ./memory

bench-bolt: ## decisions in a bbolt file against one db.Update per decision
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./bolt

bench-peers: ## brim beside its peers and bare references in one run of a quarter of an hour; starts the servers; PEERSFLAGS=-quick
	cd bench && $(GO) run ./peers -out $(CURDIR)/bench/results $(PEERSFLAGS)
	$(GO) run ./internal/draw -results bench/results

bench-accept: ## what leases and remembered refusals promise over PostgreSQL, checked while they run at full load
	cd bench && $(GO) run ./accept

pictures: ## draw every picture of docs anew
	$(GO) run ./internal/draw

torture: ## hours, not minutes: 10^6 random operations per store, a million keys, a thousand kills
	BRIM_TORTURE=1 $(PGTEST) $(GO) test -race -count 1 -timeout 4h ./...

demo: ## a day of a web server's log through a bbolt file; then kill -9, and what survived
	$(GO) run ./cmd/brim/demo

itest: ## PostgreSQL 14 to 18 in containers; needs Docker; ITESTFLAGS goes to "go test"
	GO='$(GO)' internal/itest/run.sh -race -timeout 30m $(ITESTFLAGS)

vuln: ## known vulnerabilities in what the module uses
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...
