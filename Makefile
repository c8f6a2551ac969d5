# Three commands: `make run` (the gateway with two demo sandboxes), `make demo` (a whole cluster) and `make test` (everything CI
# checks).
# Each installs what it needs. Caches live outside the tree: $SANDGATE_CACHE, else ~/.cache/sandgate. `make clean` empties this tree's.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export SANDGATE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sandgate
# A folder for each tree: cargo takes what another checkout has built for this one's if no file here is newer, whatever it says.
export CARGO_TARGET_DIR ?= $(SANDGATE_CACHE)/target/$(shell printf %s '$(CURDIR)' | cksum | cut -d' ' -f1)

BUILT := $(CARGO_TARGET_DIR)
export SANDGATE_MODULE := $(BUILT)/release/libsandgate.so
export SANDGATE_MODULE_FAILPOINTS := $(BUILT)/failpoints/libsandgate.so

# What is shipped, in one build: what the module and the command both use is compiled once. The programs do not say where they
# were built, so that another checkout gives the same ones.
REMAP = --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(CURDIR)=/sandgate
SHIPPED = RUSTFLAGS="$${RUSTFLAGS:-} $(REMAP)" cargo build --profile module --locked \
  $(addprefix -p ,$(filter-out $(STATIC),$(shell envoy/image/build --crates)))

# The task executor is copied into images of others: it is static, and small without what
# only a debugger needs.
STATIC = sandgate-task-executor
MUSL := $(shell uname -m)-unknown-linux-musl
EXECUTOR_BYTES = 5000000
SHIPPED_STATIC = CARGO_PROFILE_MODULE_DEBUG=false CARGO_PROFILE_MODULE_STRIP=debuginfo RUSTFLAGS="$${RUSTFLAGS:-} $(REMAP)" \
  cargo build --profile module --locked --target $(MUSL) $(addprefix -p ,$(STATIC))

FUZZ_SECONDS ?= 6

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Module and command in one build, so that what both use is compiled once; side by side, so that the command finds its module.
run: ## Start the gateway with two demo sandboxes (ARGS="--routes FILE" for your own)
	cargo build --profile local --locked -p sandgate -p sandgate-filter
	@echo "the command is $(BUILT)/local/sandgate: quick to build, for a look. Measure the one that make build makes"
	@exec env -u SANDGATE_MODULE $(BUILT)/local/sandgate run $(or $(ARGS),--demo)

# One after the other, so that the progress of each is seen and Ctrl-C ends it. What is printed for a shell is the demo's alone.
demo: ## A cluster with our operator, our manager, a gateway and sandboxes on this machine, until Ctrl-C (ARGS=--help says more)
	@mkdir -p $(SANDGATE_CACHE)
	@tests/cluster/build >/dev/null
	@cargo build --profile local --locked $(addprefix -p ,sandgate sandgate-filter sandgate-operator sandgate-manager sandgate-tests) \
	  --lib $(addprefix --bin ,sandgate sandgate-operator sandgate-manager demo) >&2
	@cluster="$$(tests/cluster/build)"; envoy="$$($(BUILT)/local/sandgate envoy)"; \
	exec env SANDGATE_CLUSTER="$$cluster" SANDGATE_ENVOY="$$envoy" SANDGATE_BIN=$(BUILT)/local/sandgate \
	  SANDGATE_OPERATOR=$(BUILT)/local/sandgate-operator SANDGATE_MANAGER=$(BUILT)/local/sandgate-manager \
	  SANDGATE_MODULE=$(BUILT)/local/libsandgate.so \
	  $(BUILT)/local/demo $(ARGS)

build: module executor ## The module, the command, the operator, the manager and the task executor, as shipped, side by side
	@install -D $(BUILT)/module/sandgate $(BUILT)/release/sandgate
	@install -D $(BUILT)/module/sandgate-operator $(BUILT)/release/sandgate-operator
	@install -D $(BUILT)/module/sandgate-manager $(BUILT)/release/sandgate-manager
	@echo "built $(BUILT)/release/sandgate, with libsandgate.so, sandgate-operator, sandgate-manager and task-executor beside it"

man: build ## Man pages and shell completions, beside the command
	@$(BUILT)/release/sandgate man --out $(BUILT)/release/man/man1
	@mkdir -p $(BUILT)/release/completions
	@for shell in bash elvish fish powershell zsh; do \
	  $(BUILT)/release/sandgate completions $$shell >$(BUILT)/release/completions/sandgate.$$shell; \
	done
	@echo "written: $(BUILT)/release/man/man1 and $(BUILT)/release/completions"

module: ## The module as shipped (and the command beside it)
	$(SHIPPED)
	@install -D $(BUILT)/module/libsandgate.so $(SANDGATE_MODULE)

# Where cargo is not rustup's, the target's standard library has to be there already; cargo says so if it is not.
executor: ## The task executor as shipped: a static program of at most 5 MB, without the tests' failpoints
	@! command -v rustup >/dev/null || rustup --quiet target add $(MUSL)
	$(SHIPPED_STATIC)
	@install -D $(BUILT)/$(MUSL)/module/task-executor $(BUILT)/release/task-executor
	@install $(BUILT)/release/task-executor $(BUILT)/module/task-executor
	@controller/executor/check $(BUILT)/release/task-executor $(EXECUTOR_BYTES)

test: deps build-ahead lint rustdoc failpoints module executor deny ## Everything CI checks, the image too
	cargo test --workspace --locked --no-run
	$(call with-envoy,cargo test --workspace --locked)
	tests/fuzz/run $(FUZZ_SECONDS)
	$(MAKE) test-image

image: module executor ## The images as OCI archives, without a container daemon; the same inputs give the same digests
	@.ci/deps umoci:umoci skopeo:skopeo strip:binutils pip3:python3-pip
	@envoy/image/build --built $(BUILT)/module --out $(BUILT)/image

# The layers of the images as folders in $(OUT): for the Dockerfile.
image-folders: module executor
	@envoy/image/build --built $(BUILT)/module --out $(OUT) --folders

test-image: deps image ## The main scenarios, with every Envoy and every sandgate inside the gateway's image
	@.ci/deps bwrap:bubblewrap setpriv:util-linux nsenter:util-linux
	$(call with-envoy,tests/image/run $(BUILT)/image $(BUILT)/module)

scenarios: deps failpoints module ## The scenarios on the real Envoy alone (NAME=transport:: for some of them)
	$(call with-envoy,cargo test --locked -p sandgate-tests $(NAME))

churn: deps failpoints module ## The long versions of the churn scenarios: some minutes
	$(call with-envoy,cargo test --locked -p sandgate-tests churn:: -- --nocapture)

MINUTES ?= 60
soak: deps module ## One gateway under churn for an hour (MINUTES=10): fails when memory, descriptors or counts grow
	cargo build --locked -p sandgate-tests --bin soak
	$(call with-envoy,nice $(BUILT)/debug/soak --minutes $(MINUTES) --out $(BUILT)/soak.tsv $(ARGS))

soak-operator: MINUTES = 10
soak-operator: ## The operator under churn for ten minutes: fails when objects, memory or lag grow
	cargo build --locked -p sandgate-operator
	cargo build --locked -p sandgate-tests --bin soak
	SANDGATE_CLUSTER="$$(tests/cluster/build)" SANDGATE_OPERATOR=$(BUILT)/debug/sandgate-operator \
	  nice $(BUILT)/debug/soak --operator --minutes $(MINUTES) --out $(BUILT)/soak-operator.tsv $(ARGS)

churn: export SANDGATE_CHURN = full
# The scenarios run the module as shipped; the command is the one that cargo test builds anyway.
test scenarios churn test-image: export SANDGATE_BIN = $(BUILT)/debug/sandgate
test scenarios churn test-image: export SANDGATE_OPERATOR = $(BUILT)/debug/sandgate-operator
test scenarios churn test-image: export SANDGATE_MANAGER = $(BUILT)/debug/sandgate-manager
test scenarios churn test-image: export SANDGATE_TASK_EXECUTOR = $(BUILT)/debug/task-executor
define with-envoy
cargo build --locked -p sandgate -p sandgate-operator -p sandgate-manager -p sandgate-task-executor
cluster="$$(tests/cluster/build)"; tools="$$(tests/tools/build)"; envoy="$$($(BUILT)/debug/sandgate envoy)"; \
SANDGATE_CLUSTER="$$cluster" SANDGATE_TOOLS="$$tools" SANDGATE_ENVOY="$$envoy" $(1)
endef

lint: ## Formatting, the width of comments, and clippy, warnings denied
	.ci/comment-width
	cargo fmt --all --check
	cargo fmt --manifest-path tests/fuzz/Cargo.toml --check
	cargo metadata --manifest-path tests/fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Nothing is published, so the docs are always built with private items, and a link to one of them leads somewhere. The
# command has a call of its own: the module's library has the same name, and both would write the same pages at once.
rustdoc: export RUSTDOCFLAGS = -D warnings -A rustdoc::private_intra_doc_links
rustdoc: ## The docs of every crate, private items too: a link that leads nowhere fails
	cargo doc --workspace --exclude sandgate --no-deps --locked --document-private-items
	cargo doc -p sandgate --no-deps --locked --document-private-items

envoy: ## Install the pinned Envoy into the cache and say where it is
	@cargo run --quiet --locked -p sandgate -- envoy

cluster: ## Build the cluster of the scenarios (API server, controllers, scheduler, node, kubectl) into the cache and say where it is
	@tests/cluster/build

# Begins to build cargo-deny, the cluster, and Helm and its like beside what follows, which often leaves a core idle. The step
# that needs one of them waits for it. A failure shows there: the build is then tried again.
build-ahead:
	@mkdir -p $(SANDGATE_CACHE)
	@nice bash -c 'tests/cluster/build; tests/tools/build; .ci/cargo-deny' >$(SANDGATE_CACHE)/build-ahead.log 2>&1 </dev/null &

deploy-rendered: ## Write what is made of the chart anew: envoy/deploy/rendered, Kustomize's base and component, the schema's parts
	SANDGATE_TOOLS="$$(tests/tools/build)" SANDGATE_BLESS=1 cargo test --locked --workspace --test scenarios -- \
	  the_copies_of_the_definitions_are the_rights_of_an_overlay
	SANDGATE_TOOLS="$$(tests/tools/build)" SANDGATE_BLESS=1 cargo test --locked --workspace --test scenarios -- \
	  the_schema_of_the_values_has what_the_chart_renders_is the_base_is_made_of the_component_is_made_of

MDBOOK := $(SANDGATE_CACHE)/mdbook-0.5.4
docs: $(MDBOOK)/bin/mdbook ## Build the book (envoy/docs) and check its links
	@envoy/docs/build $(MDBOOK)/bin/mdbook $(BUILT)/book

# Without optimisation: it is built in a minute and a half of one core, and then takes no second for the book.
$(MDBOOK)/bin/mdbook:
	CARGO_TARGET_DIR=$(MDBOOK)/build cargo install --locked --debug --no-default-features --root $(MDBOOK) mdbook@0.5.4
	@rm -rf $(MDBOOK)/build

crds: ## Write the definitions of OpenKruise's, OpenSandbox's and SandboxEnv's kinds anew from their types: envoy/deploy/crds
	SANDGATE_BLESS=1 cargo test --locked -p sandgate-objects --test definitions

docs-reference: ## Write the references anew: the configuration's from the JSON schemas, the API's from the manager
	SANDGATE_BLESS=1 cargo test --locked --workspace --test scenarios -- the_configuration_reference_is
	SANDGATE_BLESS=1 cargo test --locked -p sandgate-manager --lib -- api::tests::documented

# The module with a header that makes it panic: for some scenarios, never shipped, so without optimisation, as the tests are.
failpoints:
	cargo build --locked -p sandgate-filter --features failpoints
	@install -D $(BUILT)/debug/libsandgate.so $(SANDGATE_MODULE_FAILPOINTS)

deps: # What the tests need of Debian: a C++ compiler for libFuzzer, pip for Envoy and E2B's SDK, Node for its JavaScript one, curl, a browser, network namespaces. Go: see tests/cluster/build.
	@.ci/deps c++:g++ pip3:python3-pip node:nodejs npm:npm curl:curl chromium:chromium ip:iproute2 systemd-analyze:systemd
	@tests/e2b/install >/dev/null
	@tests/e2b/install 2.8.1 >/dev/null
	@tests/e2b/js/install >/dev/null
	@tests/opensandbox/install >/dev/null
	@tests/schemathesis/install >/dev/null

bench: bench-build ## What a request costs beside plain Envoy and the peers, for the record (an hour or two; a cut run goes on; ARGS="--cell h2")
	$(BENCH) run --out benches/results/gateway $(ARGS)
	$(BENCH) hook --out benches/results/gateway
	$(BENCH) instructions --out benches/results/gateway
	$(BENCH) report --out benches/results/gateway --readme benches/README.md

bench-quick: bench-build ## The same in three minutes, for a look
	$(BENCH) run --quick --fresh --out $(BUILT)/bench-quick $(ARGS)

bench-push: module ## What pushed routes cost, for the record: some minutes (the last part needs root)
	@.ci/deps pip3:python3-pip ip:iproute2
	cargo build --release --locked -p sandgate-benches --bin push
	cargo build --locked -p sandgate
	for bench in latency throughput relist partition; do \
	  SANDGATE_ENVOY="$$($(BUILT)/debug/sandgate envoy)" $(BUILT)/release/push $$bench --out benches/results/push/$$bench.tsv $(ARGS) \
	    | tee benches/results/push/$$bench.txt; \
	done

bench-operator: ## What the operator costs on a cluster of hollow pods, for the record: half an hour (ARGS=--quick for a look)
	cargo build --release --locked -p sandgate-operator -p sandgate-benches --bin sandgate-operator --bin operator
	mkdir -p benches/results/operator
	for bench in create idle reconcile; do \
	  SANDGATE_CLUSTER="$$(tests/cluster/build)" SANDGATE_OPERATOR=$(BUILT)/release/sandgate-operator \
	    $(BUILT)/release/operator $$bench --out benches/results/operator/$$bench.tsv $(ARGS) \
	    | tee benches/results/operator/$$bench.txt; \
	done

bench-pools: ## What pools and batches cost on a cluster of hollow pods, for the record: half an hour (ARGS=--quick for a look)
	cargo build --release --locked -p sandgate-operator -p sandgate-benches --bin sandgate-operator --bin pools
	mkdir -p $(POOLS_OUT)
	for bench in allocate ready size; do \
	  SANDGATE_CLUSTER="$$(tests/cluster/build)" SANDGATE_OPERATOR=$(BUILT)/release/sandgate-operator \
	    $(BUILT)/release/pools $$bench --out $(POOLS_OUT)/$$bench.tsv $(ARGS) \
	    | tee $(POOLS_OUT)/$$bench.txt; \
	done

bench-manager: module ## What the manager costs: claims, memory, reads, waits, and the first routed request, for the record: half an hour (ARGS=--quick for a look)
	cargo build --release --locked -p sandgate -p sandgate-manager -p sandgate-benches --bin sandgate --bin sandgate-manager --bin manager
	mkdir -p $(MANAGER_OUT)
	for bench in reads waits claim route memory; do \
	  SANDGATE_CLUSTER="$$(tests/cluster/build)" SANDGATE_ENVOY="$$($(BUILT)/release/sandgate envoy)" \
	    SANDGATE_BIN=$(BUILT)/release/sandgate SANDGATE_MANAGER=$(BUILT)/release/sandgate-manager \
	    $(BUILT)/release/manager $$bench --out $(MANAGER_OUT)/$$bench.tsv $(ARGS) \
	    | tee $(MANAGER_OUT)/$$bench.txt; \
	done

bench-environments: ## What environments cost, and how a pool follows its demand, for the record: half an hour (ARGS=--quick for a look)
	cargo build --release --locked -p sandgate -p sandgate-manager -p sandgate-operator -p sandgate-benches \
	  --bin sandgate --bin sandgate-manager --bin sandgate-operator --bin environments
	mkdir -p $(ENVIRONMENTS_OUT)
	for bench in route claim idle burst; do \
	  SANDGATE_CLUSTER="$$(tests/cluster/build)" SANDGATE_BIN=$(BUILT)/release/sandgate \
	    SANDGATE_MANAGER=$(BUILT)/release/sandgate-manager SANDGATE_OPERATOR=$(BUILT)/release/sandgate-operator \
	    $(BUILT)/release/environments $$bench --out $(ENVIRONMENTS_OUT)/$$bench.tsv $(ARGS) \
	    | tee $(ENVIRONMENTS_OUT)/$$bench.txt; \
	done

# A look must not replace the record.
POOLS_OUT = $(if $(findstring --quick,$(ARGS)),$(BUILT)/bench-pools,benches/results/pools)
ENVIRONMENTS_OUT = $(if $(findstring --quick,$(ARGS)),$(BUILT)/bench-environments,benches/results/environments)
MANAGER_OUT = $(if $(findstring --quick,$(ARGS)),$(BUILT)/bench-manager,benches/results/manager)

bench-build: module
	@.ci/deps wrk:wrk valgrind:valgrind pip3:python3-pip
	cargo build --profile module --locked -p envoy-proxy-dynamic-modules-rust-sdk --example noop
	cargo build --release --locked -p sandgate-benches --bin gateway
	cargo build --locked -p sandgate

BENCH = SANDGATE_ENVOY="$$($(BUILT)/debug/sandgate envoy)" SANDGATE_NOOP=$(BUILT)/module/examples/libnoop.so $(BUILT)/release/gateway

deny: ## Licences, sources and banned crates (builds cargo-deny once)
	"$$(.ci/cargo-deny)" --locked check --hide-inclusion-graph bans licenses sources

sanitize: ## Before a release: Miri and ThreadSanitizer (the only use of nightly; CONTRIBUTING.md has the last result)
	.ci/sanitize $(STEPS)

fuzz: deps ## Every fuzz target for FUZZ_SECONDS (FUZZ_SECONDS=600 for a long look)
	tests/fuzz/run $(FUZZ_SECONDS)

clean: ## Forget what was built from this tree
	cargo clean

.PHONY: help run demo build man module executor test image image-folders test-image scenarios churn soak soak-operator lint envoy cluster crds deploy-rendered failpoints deps bench bench-quick bench-push bench-operator bench-pools bench-manager bench-environments bench-build deny fuzz clean rustdoc build-ahead sanitize docs docs-reference
.NOTPARALLEL:
