# The two that do all the set-up: `make demo` and `make test`. Needs Rust and git.
CARGO ?= cargo
TESTER := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo "nextest run" || echo "test")

.PHONY: help build release demo test lint fmt

help: ## What there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST)

build: ## Build everything (target/debug/taskyard)
	$(CARGO) build --workspace --locked

release: ## Build for real use (target/release/taskyard)
	$(CARGO) build --release --locked -p taskyard --features tls

demo: ## Do the main job on a throw-away repository and leave the server running
	$(CARGO) build --locked -p taskyard
	target/debug/taskyard demo

test: ## Run all tests, on SQLite and on a throw-away PostgreSQL
	scripts/test-postgres.sh run $(CARGO) $(TESTER) --workspace --locked

lint: ## Formatting, clippy with the project's bans, which crate may use which
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) $(TESTER) --workspace --test house --locked

fmt: ## Format
	$(CARGO) fmt --all
