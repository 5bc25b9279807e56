# docket. `make demo` shows it at work, `make test` checks it; both need Go and
# nothing else that a fresh clone doesn't have.

GO ?= go

# The race detector needs cgo and a C compiler.
CC_FOUND := $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null)

# The detector makes every process wait for a second at its end; tests start hundreds.
RACE := GORACE=atexit_sleep_ms=0 $(GO) test -race

.PHONY: build test check lint fault slow bench vuln demo clean

build: ## docket and docketd, static, into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -o bin/ ./cmd/docket ./cmd/docketd

test: ## formats, vets and tests everything
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted (gofmt -w):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
ifneq ($(CC_FOUND),)
	$(RACE) $$($(GO) list ./... | grep -v -e '/verify$$' -e '/cmd/docket$$')
	@# Most of verify's tests change bytes in one goroutine, and the scripts of docket
	@# start a process a line, many times as slow under the detector: what is parallel
	@# runs with it, and all of it without.
	$(RACE) -run '^(TestReportIsTheSame|TestSeams|TestProgressAndCancel|TestFileChanges)$$' ./verify
	$(RACE) -run '^Test(BrokenStreams|Interrupt|TrailerWatch|NoProgressIntoPipes)$$' ./cmd/docket
	$(GO) test ./verify ./cmd/docket
else
	@echo "no C compiler found: RACES ARE NOT CHECKED in this run"
	CGO_ENABLED=0 $(GO) test ./...
endif

FUZZ_TIME ?= 20s
FUZZ := $(GO) run ./test/fuzzall

check: test ## test, sweeps that the race detector shortens, static analysis, other platforms, each fuzz target
	CGO_ENABLED=0 $(GO) test ./internal/boundary ./store ./chain
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	GOOS=darwin $(GO) vet ./...
	@if GOARCH=386 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/docketd 2>/dev/null; then echo "a 32-bit build must be refused"; exit 1; fi
	$(GO) test -tags purego ./chain
	$(FUZZ) -time $(FUZZ_TIME)

slow: ## sweeps that take minutes: memory, every cut of every stream, many mutations
	$(GO) test -tags slow -timeout 20m ./...

fault: ## failing disks and killed processes, on the real binaries; needs strace
	$(GO) test -tags fault -count 1 -timeout 15m ./test/fault/...

bench: ## figures of docs/performance.md, as ratios within one run
	$(GO) test -run '^$$' -bench . -benchmem ./store ./verify ./chain

lint: ## the long list of linters; builds golangci-lint, which takes minutes
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

vuln: ## known advisories; asks an online database
	$(GO) tool -modfile=tools/go.mod govulncheck ./...

demo: ## a real agent run, recorded, exported and proved
	@sh demo/run.sh

clean:
	rm -rf bin
