# Everything is run from here; .ci/run calls `make gate`. docs/testing.md says what runs when.
GO       ?= go
FUZZTIME ?= 60s
SOAK     ?= 30m
TESTS    ?= TestFault|TestTaskFault|TestBoardFault|TestWorkflowFault|TestWorkflowSoak
FLAGS    ?=
TARGETS  ?= test
PARTS    ?= ./internal/redis ./internal/commit ./internal/stream ./lock ./limit ./jobstore ./jobcontrol ./sfc ./publisher ./task ./board/redisboard ./workflow ./test/fault

# The packages that take longest begin first. Most tests wait most of the time, so twice as many run as there are processors.
all      := ./test/fault ./test/e2e ./task ./workflow ./cmd/takt ./jobstore ./publisher ./...
n        := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
short    := -short -timeout 6m -p $(n) -parallel $(n)
long     := -race -timeout 60m -p $(n) -parallel $(n)
raced    := ./task ./workflow ./publisher ./internal/stream ./mqtt ./lock

# Takt is pure Go: without cgo, lint, tests and the binary share one build cache. The race detector needs it.
export CGO_ENABLED = 0

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/takt
	$(GO) build -trimpath -ldflags '-s -w' -o bin/takt ./cmd/takt

.PHONY: release
release: ## Build bin/release: binaries for each system, Debian packages, checksums, SBOM; VERSION=v0.1.0
	@scripts/release "$(VERSION)" bin/release

.PHONY: cross
cross: ## Compile all packages for the systems that Takt runs on
	@for s in linux/amd64 linux/arm64 linux/arm linux/386 darwin/arm64 windows/amd64; do echo "# $$s" && GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build ./... || exit 1; done

.PHONY: demo
demo: build ## Run forty job orders from MES to machine and back, with an outage in the middle
	./bin/takt demo --example examples/gearbox-cover

.PHONY: dev
dev: build ## The same system, left running for use by hand
	./bin/takt dev

.PHONY: test
test: ## Unit, contract, golden, property and short end-to-end tests, on servers that it installs (5 min)
	@scripts/install-tools base
	@TAKT_TEST_PATIENCE=45s scripts/gotest test "$(all)" $(short) $(FLAGS)

.PHONY: gate
gate: lint test ## What a change must pass: lint, test, the race detector where goroutines meet, current docs
	@TAKT_TEST_PATIENCE=45s CGO_ENABLED=1 scripts/gotest race "$(raced)" -race $(short) $(FLAGS)
	@$(GO) run ./cmd/takt docs --check docs/reference
	@GOOS=linux GOARCH=386 $(GO) build -o /dev/null ./cmd/takt
	@GOOS=windows $(GO) build -o /dev/null ./cmd/takt
	@scripts/cover isa95 recipe
	@[ -n "$$(git status --porcelain)$(filter-out -count=1,$(FLAGS))" ] || git rev-parse HEAD >bin/gate-passed

.PHONY: test-all
test-all: ## All tests of the root module with the race detector, leases, kills and outages included (40 min)
	@scripts/install-tools faults
	@CGO_ENABLED=1 scripts/gotest all "$(all)" $(long) $(FLAGS)

.PHONY: test-faults
test-faults: ## Kills, outages, wrong clocks and bad networks, with real processes; memory and commands per order
	@scripts/install-tools faults
	@scripts/gotest faults "./test/fault ./cmd/takt" -timeout 60m $(FLAGS)

.PHONY: test-interop
test-interop: ## Boards on ZooKeeper and beside TaskFlow, programs in Python and JavaScript, and the modules of go-workflows and of the benchmarks
	@scripts/install-tools interop
	@scripts/gotest interop "./board/zkboard ./internal/embedded ./internal/testenv ./test/e2e ./test/interop" -tags interop -timeout 60m $(FLAGS)
	@for m in $$(scripts/modules | grep -vx .); do (cd $$m && $(GO) test -tags interop -timeout 60m $(FLAGS) ./...) || exit 1; done

.PHONY: test-console
test-console: ## A browser uses the web console of a system at work; FLAGS=-update takes the pictures of docs/console.md, FLAGS='-measure -v' measures
	@scripts/install-tools browser
	@cd test/console && $(GO) test -tags browser -count=1 -timeout 30m . $(FLAGS)

.PHONY: test-stores
test-stores: ## The contract with the store and the fault tests, on Redis 7.0 and Valkey 8.0; PARTS chooses packages
	@scripts/install-tools faults
	@for s in redis-7.0 valkey-8.0; do \
		server=$$(scripts/store $$s) && echo "# $$s" && \
		TAKT_TEST_REDIS_SERVER=$$server PATH=$$(dirname $$server):$$PATH scripts/gotest $$s "$(PARTS)" -count=1 -timeout 60m $(FLAGS) || exit 1; \
	done

.PHONY: test-busy
test-busy: ## Run TARGETS (test) without the cache of tests while another program keeps every processor busy
	@scripts/busy $(MAKE) $(TARGETS) FLAGS='-count=1 $(FLAGS)'

.PHONY: cover
cover: ## Coverage of the words: isa95 and recipe must stay above 90 %
	@scripts/cover isa95 recipe

.PHONY: lint
lint: ## gofmt, vet, staticcheck and errorlint of the root module
	@scripts/lint
	@awk -F '|' -v old="$$(date -d '14 days ago' +%F)" '$$3 ~ /^ 20[0-9-]* $$/ && substr($$3, 2, 10) < old {print "flaky for more than 14 days:" $$2 "(docs/testing.md)"}' docs/testing.md

.PHONY: lint-all
lint-all: ## The same in all modules
	@for m in $$(scripts/modules); do echo "# $$m"; (cd $$m && $(CURDIR)/scripts/lint) || exit 1; done

# Outside CI, which reaches the module proxy alone: the database of vulnerabilities is asked over the network.
.PHONY: vuln
vuln: ## Known vulnerabilities in the code that is called, in all modules (govulncheck; needs vuln.go.dev)
	@for m in $$(scripts/modules); do echo "# $$m"; (cd $$m && $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || exit 1; done

.PHONY: soak
soak: ## Run the fault tests of job orders and tasks with their large numbers, and the mixes of faults for SOAK; TESTS chooses some
	@scripts/install-tools faults
	TAKT_TEST_LONG=1 TAKT_TEST_SOAK=$(SOAK) CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 4h -v -run '$(TESTS)' ./test/fault
	TAKT_TEST_SOAK=$(SOAK) $(GO) test -count=1 -timeout 1h -v -run TestServeMemoryAtARate ./cmd/takt

.PHONY: fuzz
fuzz: ## Run the fuzzers, FUZZTIME each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: bench
bench: build ## Go benchmarks, job orders, tasks and boards, tasks beside asynq and bare streams, boards beside TaskFlow, workflows beside go-workflows' backend (25 min)
	@scripts/install-tools interop
	$(GO) test -run '^$$' -bench . -benchmem ./...
	./bin/takt bench jobs --n 5000
	./bin/takt bench tasks
	./bin/takt bench board
	cd bench && $(GO) run ./tasks
	cd bench && $(GO) run ./boards
	cd bench && $(GO) run ./workflows
	cd bench && $(GO) run ./workflows --activities 10
