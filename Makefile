# Everything is run from here; .ci/run calls `make lint verify test`.
GO       ?= go
FUZZTIME ?= 60s
SOAK     ?= 30m
TESTS    ?= TestTaskFault
TESTFLAGS ?= -race -timeout 9m

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/takt
	$(GO) build -trimpath -ldflags '-s -w' -o bin/takt ./cmd/takt

.PHONY: demo
demo: build ## Run forty job orders from MES to machine and back, with an outage in the middle
	./bin/takt demo --example examples/gearbox-cover

.PHONY: dev
dev: build ## The same system, left running for use by hand
	./bin/takt dev

.PHONY: tools
tools: ## Install what the tests need from Debian
	@scripts/install-tools

# Runs once for `make verify test`. The outcome of each test is kept in bin/results.json.
.PHONY: results
results: tools
	@rm -f bin/results.json
	@for m in $$(scripts/modules); do echo "# $$m"; CGO_ENABLED=1 $(GO) run ./internal/verify run -dir $$m -- $(TESTFLAGS) || exit 1; done

.PHONY: test
test: results ## Run all tests of all modules, with the race detector

.PHONY: cover
cover: ## Coverage of the words: isa95 and recipe must stay above 90 %
	@scripts/cover isa95 recipe

.PHONY: lint
lint: ## gofmt, vet, staticcheck and errorlint, in all modules
	@for m in $$(scripts/modules); do echo "# $$m"; (cd $$m && $(CURDIR)/scripts/lint) || exit 1; done

.PHONY: verify
verify: results ## Generated docs are current, and every defect number is in a test that ran
	@$(GO) run ./cmd/takt docs --check docs/reference
	@scripts/cover isa95 recipe
	@$(GO) run ./internal/verify numbers

.PHONY: soak
soak: tools ## Run the fault tests of tasks with their large numbers, and the mix of faults for SOAK; TESTS chooses some
	TAKT_TEST_LONG=1 TAKT_TEST_SOAK=$(SOAK) CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 4h -v -run '$(TESTS)' ./test/fault

.PHONY: fuzz
fuzz: ## Run the fuzzers, FUZZTIME each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: bench
bench: tools build ## Go benchmarks, job orders, tasks and boards, tasks beside asynq, river and bare streams, boards beside TaskFlow, workflows beside go-workflows' backend (45 min)
	$(GO) test -run '^$$' -bench . -benchmem ./...
	./bin/takt bench jobs --n 5000
	./bin/takt bench tasks
	./bin/takt bench board
	cd bench && $(GO) run ./tasks
	cd bench && $(GO) run ./boards
	cd bench && $(GO) run ./workflows
	cd bench && $(GO) run ./workflows --activities 10
