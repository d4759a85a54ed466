SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help quick test test-386 lint cross cover torture torture-quick itest vuln
.PHONY: bench bench-memory bench-bolt bench-peers bench-accept pictures demo

GO ?= go
# internal/tools pins the versions of the tools. Go builds them on first use and caches them.
TOOL := $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod
# Runs a command with one PostgreSQL for all of its tests, and prints how many tests used it.
PGTEST := $(GO) run ./internal/pgtest/cmd --
# These modules stand apart because of their dependencies. The tests of internal/itest need Docker.
NESTED := bench internal/itest docs/observability httplimit/sfvtest examples/frameworks torture
# "make cross" builds for these systems.
PLATFORMS := linux/386 linux/arm64 darwin/arm64 windows/amd64

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

quick: ## build, vet, and the tests that need no server, in 20 seconds; random tests are shorter
	$(GO) build ./...
	$(GO) vet ./...
	$(GO) test -short -count=1 -vet=off -p 3 -ldflags=-w ./...

test: test-386 ## every test that needs no Docker, with the race detector; starts a PostgreSQL
	$(PGTEST) $(GO) test -race -timeout 10m $(TESTFLAGS) ./...
	for module in $(filter-out internal/itest,$(NESTED)); do (cd $$module && $(GO) test -race ./...); done

# A 32-bit program runs on linux/amd64 without further libraries, and the tests need neither cgo
# nor a server.
test-386: ## the packages without a file and a server, where an int has 32 bits; on linux/amd64 only
	@if [[ "$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)" == linux/amd64 ]]; then set -x; \
	GOARCH=386 $(GO) test $(TESTFLAGS) ./store/... ./memory ./refusals ./lease ./observe ./queue ./httplimit \
		./internal/combine ./spend ./spend/memledger; \
	else echo "no test where an int has 32 bits: this system is not linux/amd64"; fi

lint: ## formatting, vet, staticcheck and golangci-lint in the versions of internal/tools; then cross
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [[ -n "$$unformatted" ]]; then echo "not formatted; run gofumpt -w on:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) staticcheck ./...
	for module in . $(NESTED); do (cd $$module && $(GO) vet ./... && $(TOOL) golangci-lint run ./...); done
	$(MAKE) --no-print-directory cross

cross: ## build and vet every module for other systems, or for PLATFORMS="linux/386 windows/amd64"
	for platform in $(PLATFORMS); do for module in . $(NESTED); do (cd $$module && \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} && $(GO) build ./... && $(GO) vet ./...); done; done

# The packages that decide. Their tests share conformance suites and servers, and a backend's
# code also runs in the tests of the ledger over it. So a statement counts if the tests of any
# of these packages run it.
COVERED := . ./store ./memory ./bolt ./internal/boltfile ./postgres \
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

bench-peers: ## brim, its peers and bare references, in a quarter of an hour; starts the servers; PEERSFLAGS=-quick
	cd bench && $(GO) run ./peers -out $(CURDIR)/bench/results $(PEERSFLAGS)
	$(GO) run ./internal/draw -results bench/results

bench-accept: ## check the promises of leases and remembered refusals over PostgreSQL at full load
	cd bench && $(GO) run ./accept

pictures: ## draw every picture of docs anew
	$(GO) run ./internal/draw

torture: ## for hours: 10^6 random operations per store, a million keys, a thousand kills; then every harness of torture
	BRIM_TORTURE=1 $(PGTEST) $(GO) test -race -count 1 -timeout 4h ./...
	cd torture && BRIM_TORTURE=1 BRIM_REPORT=$(CURDIR)/torture/REPORT.md $(GO) test -count 1 -p 1 -v -timeout 4h ./...

torture-quick: ## some seconds of every harness of torture; BRIM_SEED repeats a run
	cd torture && $(GO) test -count 1 -p 1 ./...

demo: ## replay a day of a web server's log through a bbolt file, kill -9 it, and show that the limits survived
	$(GO) run ./cmd/brim/demo

itest: ## PostgreSQL 14 to 18 in containers; needs Docker; ITESTFLAGS goes to "go test"
	GO='$(GO)' internal/itest/run.sh -race -timeout 30m $(ITESTFLAGS)

vuln: ## known vulnerabilities in the dependencies
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...
