# The two that do all the set-up: `make demo` and `make test`. Needs Rust and git.
CARGO ?= cargo
NEXTEST_VERSION = 0.9.143

.PHONY: help nextest build release demo test fuzz lint fmt test-repositories test-agents test-clients torture conformance bench

help: ## What there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST)

# The profiles of .config/nextest.toml say which tests belong to which target; plain `cargo test` doesn't know them.
nextest:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install cargo-nextest --locked --version $(NEXTEST_VERSION)

build: ## Build everything (target/debug/taskyard)
	$(CARGO) build --workspace --locked

release: ## Build for real use (target/release/taskyard)
	$(CARGO) build --release --locked -p taskyard --features tls

demo: ## Do the main job on a throw-away repository and leave the server running
	$(CARGO) build --locked -p taskyard
	target/debug/taskyard demo

test: nextest ## Run all tests, on SQLite and on a throw-away PostgreSQL
	scripts/test-postgres.sh run $(CARGO) nextest run --workspace --locked

test-repositories: nextest ## The whole flow on repositories made from published packages (needs npm, pip, apt-get; 600 MB)
	repositories=$$(scripts/real-repositories.sh) && TASKYARD_REAL_REPOSITORIES=$$repositories PATH=$$repositories/lfs/bin:$$PATH \
		$(CARGO) nextest run --profile repositories -p taskyard --test repositories --locked

test-agents: nextest ## Real agents with scripted models, offline (needs npm; 3.5 GB)
	agents=$$(scripts/install-agents.sh) && $(CARGO) nextest run --no-run --profile agents -p taskyard --test agents --locked && \
		TASKYARD_TEST_AGENTS=$$agents scripts/offline.sh \
		$(CARGO) nextest run --profile agents -p taskyard --test agents --locked --offline

test-clients: nextest ## Real MCP clients, offline: SDKs, inspector, agents (needs Python, npm; 2 GB)
	clients=$$(scripts/install-clients.sh) && agents=$$(scripts/install-agents.sh claude codex gemini opencode) && \
		$(CARGO) nextest run --no-run --profile clients -p taskyard --test clients --locked && \
		TASKYARD_TEST_CLIENTS=$$clients TASKYARD_TEST_AGENTS=$$agents scripts/offline.sh \
		$(CARGO) nextest run --profile clients -p taskyard --test clients --locked --offline

torture: ## Rounds of load and faults on the real server: ROUNDS=100 SEED=1; goes on where it stopped (docs/reliability.md)
	BUILD=$$(git describe --always --dirty) STATE=$${STATE:-$(CURDIR)/target/torture/rounds.txt} ROUNDS=$(or $(ROUNDS),100) SEED=$(or $(SEED),1) \
		$(CARGO) test --locked -p taskyard --test torture -- --ignored --exact rounds --nocapture

conformance: ## The official MCP conformance suite, three revisions, every check (needs npm; 250 MB)
	CARGO=$(CARGO) scripts/conformance.sh

fuzz: nextest ## The property tests at length: CASES=5000 (256 is what `make test` does); what fails is kept in proptest-regressions
	PROPTEST_CASES=$(or $(CASES),5000) scripts/test-postgres.sh run $(CARGO) nextest run --profile fuzz --workspace --locked

bench: release ## Measure the release build, beside its peers: ONLY=add_task,wait for parts (needs npm, pip; docs/benchmarks.md)
	$(CARGO) build --release --locked -p taskyard-bench
	scripts/bench.sh --json target/bench/figures.json $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

lint: nextest ## Formatting, clippy with the project's bans, which crate may use which
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) nextest run --workspace --test house --locked

fmt: ## Format
	$(CARGO) fmt --all
