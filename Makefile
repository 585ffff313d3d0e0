# Everything is run from here; .ci/run calls `make lint test test-faults test-interop verify`.
GO       ?= go
FUZZTIME ?= 60s
SOAK     ?= 30m
TESTS    ?= TestFault|TestTaskFault
TESTFLAGS ?= -race -timeout 60m
TARGETS  ?= test

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/takt
	$(GO) build -trimpath -ldflags '-s -w' -o bin/takt ./cmd/takt

.PHONY: demo
demo: build ## Run forty job orders from MES to machine and back, with an outage in the middle
	./bin/takt demo --example examples/gearbox-cover

.PHONY: dev
dev: build ## The same system, left running for use by hand
	./bin/takt dev

# The three suites together run every test once; docs/testing.md says which test is where. Outcomes are kept in bin/results for `make verify`.
.PHONY: test
test: ## Unit, contract, golden, property and short end-to-end tests, with the race detector (5 min)
	@scripts/install-tools base
	@CGO_ENABLED=1 $(GO) run ./internal/verify run test -- $(TESTFLAGS)

.PHONY: test-faults
test-faults: ## Kills, outages, wrong clocks and bad networks, with real processes
	@scripts/install-tools faults
	@CGO_ENABLED=1 $(GO) run ./internal/verify run test-faults -- $(TESTFLAGS)

.PHONY: test-interop
test-interop: ## With ZooKeeper, TaskFlow and PostgreSQL, and the modules of go-workflows and of the benchmarks
	@scripts/install-tools interop
	@CGO_ENABLED=1 $(GO) run ./internal/verify run test-interop -- $(TESTFLAGS)

.PHONY: test-stores
test-stores: ## The contract and fault tests on Redis 7.0 and Valkey 8.0, fetched from Debian's packages; PARTS chooses packages, or test-faults
	@scripts/install-tools faults
	@CGO_ENABLED=1 $(GO) run ./internal/verify stores $(PARTS) -- $(TESTFLAGS)

.PHONY: test-busy
test-busy: ## Run TARGETS (test) again while another program keeps every processor busy
	@$(GO) run ./internal/verify busy -- $(MAKE) $(TARGETS) TESTFLAGS='$(TESTFLAGS) -count=1'

.PHONY: cover
cover: ## Coverage of the words: isa95 and recipe must stay above 90 %
	@scripts/cover isa95 recipe

.PHONY: lint
lint: ## gofmt, vet, staticcheck and errorlint, in all modules
	@for m in $$(scripts/modules); do echo "# $$m"; (cd $$m && $(CURDIR)/scripts/lint) || exit 1; done

# Outside CI, which reaches the module proxy alone: the database of vulnerabilities is asked over the network.
.PHONY: vuln
vuln: ## Known vulnerabilities in the code that is called, in all modules (govulncheck; needs vuln.go.dev)
	@for m in $$(scripts/modules); do echo "# $$m"; (cd $$m && $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || exit 1; done

.PHONY: verify
verify: ## Generated docs are current, all suites ran on these files, and every defect number is in a test that passed
	@$(GO) run ./cmd/takt docs --check docs/reference
	@scripts/cover isa95 recipe
	@$(GO) run ./internal/verify numbers

.PHONY: soak
soak: ## Run the fault tests of job orders and tasks with their large numbers, and the mixes of faults for SOAK; TESTS chooses some
	@scripts/install-tools faults
	TAKT_TEST_LONG=1 TAKT_TEST_SOAK=$(SOAK) CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 4h -v -run '$(TESTS)' ./test/fault

.PHONY: mutate
mutate: ## Remove each guard of the Lua scripts alone and name the test that fails (hours the first time); MUTANTS chooses files or folders
	@nice -n 10 $(GO) run ./internal/mutate $(MUTANTS)

.PHONY: fuzz
fuzz: ## Run the fuzzers, FUZZTIME each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: bench
bench: build ## Go benchmarks, job orders, tasks and boards, tasks beside asynq, river and bare streams, boards beside TaskFlow, workflows beside go-workflows' backend (45 min)
	@scripts/install-tools interop
	$(GO) test -run '^$$' -bench . -benchmem ./...
	./bin/takt bench jobs --n 5000
	./bin/takt bench tasks
	./bin/takt bench board
	cd bench && $(GO) run ./tasks
	cd bench && $(GO) run ./boards
	cd bench && $(GO) run ./workflows
	cd bench && $(GO) run ./workflows --activities 10
