SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Parameters of the demo and the benchmarks: make demo SEED=7 JOBS=200 OUT=out/try
SEED ?= 1
JOBS ?= 1000
# One of the EAMC paper, or look-ahead.
POLICY ?= priority-inc-v
OUT ?= out
SWF ?=
COEFFICIENTS ?=
REPORTS ?=
WORKLOAD = --seed $(SEED) --jobs $(JOBS) --policy $(POLICY) --out '$(OUT)' \
    $(if $(SWF),--swf '$(SWF)') $(if $(COEFFICIENTS),--coefficients '$(COEFFICIENTS)')

PROTOS := $(shell find proto -name '*.proto' | sort)
RELEASED := proto/released/v1.binpb
COMPILED := $(shell sed -n "s/^    \"\(shared.*[.]py\)\",$$/\1/p" pyproject.toml)

COMPILER_PACKAGES := gcc:build-essential python3-config:python3-dev
KAFKA_PACKAGES := java:openjdk-17-jdk-headless mvn:maven setpriv:util-linux
SERVER_PACKAGES := $(KAFKA_PACKAGES) redis-server:redis-server
SLURM_PACKAGES := slurmctld:slurm-wlm slurmdbd:slurmdbd mariadbd:mariadb-server
# Its programs are in a folder of each release; this one finds them.
DATABASE_PACKAGES := pg_ctlcluster:postgresql setpriv:util-linux
CONTAINER_PACKAGES := podman:podman buildah:buildah runc:runc iptables:iptables \
    debootstrap:debootstrap /usr/lib/podman/netavark:netavark \
    /usr/lib/podman/aardvark-dns:aardvark-dns

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

## Set-up ------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.installed ## create .venv with the coplace command in it

# uv unpacks in seconds what takes pip minutes; pip fetches uv alone, and both check all hashes.
$(VENV)/.locked: requirements.lock
	@deploy/require-python.sh $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r requirements.lock
	$(BIN)/python -m compileall -q --workers 0 -x '/tests?/' $(VENV)/lib
	touch $@

$(VENV)/.generated: $(VENV)/.locked $(PROTOS)
	PATH="$(CURDIR)/$(BIN):$$PATH" deploy/generate-proto.sh client
	touch $@

# A compiled module goes before its source, so it has to be as new. Bytecode of the rest: each start
# of a process takes a quarter less of CPU where Python is set to write none itself.
$(VENV)/.installed: $(VENV)/.generated pyproject.toml client/pyproject.toml agent/pyproject.toml \
    setup.py $(COMPILED)
	@command -v gcc >/dev/null || echo "No C compiler: scheduling passes take twice the time." \
	    "For full speed: apt-get install build-essential python3-dev; make clean setup"
	find shared -name '*.so' -delete
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python \
	    --editable client --editable agent --editable .
	find shared -name '*.so' -exec touch {} +
	$(BIN)/python -m compileall -q --workers 0 agent cli client coplace_testing deploy lab services shared
	touch $@

# What the first answer needs, without compiler, servers and tests.
DEMO := $(VENV)/demo
$(DEMO)/.ready: requirements-demo.lock requirements.lock $(PROTOS)
	@deploy/require-python.sh $(PYTHON)
	test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(DEMO)/uv.lock
	$(DEMO)/bin/python -m pip install --quiet --require-hashes -r $(DEMO)/uv.lock
	$(DEMO)/bin/uv pip install --quiet --require-hashes --python $(DEMO)/bin/python -r requirements-demo.lock
	PATH="$(CURDIR)/$(DEMO)/bin:$$PATH" deploy/generate-proto.sh $(DEMO)/lib/python*/site-packages --without-stubs
	COPLACE_PLAIN=1 $(DEMO)/bin/uv pip install --quiet --no-deps --no-build-isolation --python $(DEMO)/bin/python \
	    --editable client --editable .
	touch $@

.PHONY: proto
proto: $(VENV)/.generated ## build the protobuf code, client/coplace

.PHONY: dist
dist: setup ## build the distributions into dist/, with bills of materials, schemas, checksums
	$(BIN)/python -m deploy.release --out dist

IMAGES ?= 1

.PHONY: bundle
bundle: dist $(if $(filter 1,$(IMAGES)),system-containers) ## one archive for a site without internet: OUT= IMAGES=0
	$(BIN)/python -m deploy.release --out dist --bundle '$(OUT)' $(if $(filter 0,$(IMAGES)),--no-images)

.PHONY: bundle-check
bundle-check: setup $(if $(filter 1,$(IMAGES)),system-containers) ## use the archive where there is no network: OUT= IMAGES=0
	ls '$(OUT)'/coplace-*-bundle.tar.gz >/dev/null 2>&1 || $(MAKE) bundle
	tests/distributions/without-network.sh $(BIN)/python -m tests.distributions.offline '$(OUT)'/coplace-*-bundle.tar.gz

LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 \
    $(foreach own,coplace coplace-agent coplace-client,--no-emit-package $(own)) \
    --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

.PHONY: lock
lock: $(VENV)/.locked ## pin anew what the distributions ask for, with hashes and no package host
	$(LOCK) pyproject.toml agent/pyproject.toml --extra dev --output-file requirements.lock
	$(LOCK) pyproject.toml --extra demo --constraint requirements.lock --output-file requirements-demo.lock

KUBERNETES_PACKAGES := etcd:etcd-server containerd:containerd dnsmasq:dnsmasq-base \
    /usr/lib/cni/bridge:containernetworking-plugins setpriv:util-linux

COUNTING_PACKAGES := valgrind:valgrind

# Go is too old in Debian 12: where it lacks the tests say where to get it.
EXAMPLE_PACKAGES := node:nodejs npm:npm

.PHONY: system-examples system-python system-compiler system-servers system-slurm system-containers system-tests \
    system-counting system-kubernetes
system-python:
	@deploy/require-python.sh $(PYTHON)
system-compiler:
	@deploy/require-commands.sh $(COMPILER_PACKAGES)
system-examples:
	@deploy/require-commands.sh $(EXAMPLE_PACKAGES)
system-servers:
	@deploy/require-commands.sh $(SERVER_PACKAGES)
system-slurm:
	@deploy/require-commands.sh $(SLURM_PACKAGES)
system-containers:
	@deploy/require-commands.sh $(CONTAINER_PACKAGES)
system-counting:
	@deploy/require-commands.sh $(COUNTING_PACKAGES)
system-kubernetes:
	@deploy/require-commands.sh $(KUBERNETES_PACKAGES)
# All at once, while pip installs.
system-tests:
	@deploy/require-commands.sh $(SERVER_PACKAGES) $(SLURM_PACKAGES) $(EXAMPLE_PACKAGES) $(DATABASE_PACKAGES) \
	    $(CONTAINER_PACKAGES) $(COUNTING_PACKAGES) gpg:gnupg

## Checks ------------------------------------------------------------------------------------

# It needs no compiled module: `make test` lints while gcc works.
.PHONY: lint
lint: proto lint-proto ## style, types, import contracts and schemas
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=.:client:agent $(BIN)/lint-imports

# The baseline is the image of the last release, kept in the repository: it is the same in every
# clone and at every commit, and unlike a branch it holds exactly what consumers were promised.
.PHONY: lint-proto
lint-proto: $(VENV)/.locked
	$(BIN)/buf lint
	$(BIN)/buf breaking --against $(RELEASED)

.PHONY: release-proto
release-proto: setup ## make the current schemas the ones that later changes may not break
	test ! -e $(RELEASED) || $(BIN)/buf breaking --against $(RELEASED)
	mkdir -p $(dir $(RELEASED))
	$(BIN)/buf build --exclude-source-info --output $(RELEASED)

# Tests with servers wait for a fifth of their time: three workers keep two cores at work. A module
# stays in one worker, since its tests share services. What is long comes first, and the many short
# ones last: they even the workers out.
WORKERS ?= 3

# A run starts hundreds of processes: each would compile all sources anew.
collect-tests run-tests test-rest test-thorough: export PYTHONDONTWRITEBYTECODE =
# The workers have the cores: threads that wait for each other take several times the CPU.
run-tests test-rest test-thorough: export OMP_NUM_THREADS = 1

PYTEST = $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadscope --no-loadscope-reorder \
    --share-servers
# A property says how many examples are enough: each change plays a quarter of them, and the rest
# of the gate twice as many.
run-tests: EXAMPLES = 0.25
test-rest: EXAMPLES = 2
run-tests test-rest: export COPLACE_EXAMPLES = $(EXAMPLES)

# What lint finds is shown at once, and fails the target once the tests are over. What the rest of
# the gate needs of Debian is installed beside.
.PHONY: test
test: system-python system-compiler ## for each change: style, types, schemas, unit and contract tests, one run on servers: WORKERS=
	$(MAKE) --jobs=2 system-tests $(VENV)/.locked
	$(MAKE) --jobs=2 lint run-tests collect-tests

# Of tests pytest writes bytecode of its own, each worker the same: once, while gcc has the other core.
.PHONY: collect-tests
collect-tests: proto
	$(BIN)/python -m pytest --collect-only -qq >/dev/null || true

.PHONY: run-tests
run-tests: setup
	$(PYTEST) -m 'not rest and not thorough' --durations=10

# In an environment of its own: it needs another Python than the rest.
$(VENV)/.focus: $(VENV)/.locked tests/focus/validator.lock tests/focus/install.sh
	PATH="$(CURDIR)/$(BIN):$$PATH" tests/focus/install.sh $(VENV)/focus
	touch $@

.PHONY: test-rest
test-rest: setup system-tests $(VENV)/.focus ## what make test leaves out: small forms of tests of whole systems, random tests at length: WORKERS= EXAMPLES=
	$(PYTEST) -m '(rest or hypothesis) and not thorough' --durations=10

.PHONY: test-thorough
test-thorough: setup system-servers system-containers system-kubernetes ## what CI has no time for: containers, an API server, kills of Kafka and of secure runs
	$(PYTEST) -m thorough

.PHONY: same
same: setup system-servers ## decisions and charges are those recorded: RECORD=1 writes them anew, TEXTS=0 lets reasons differ
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.same $(if $(RECORD),--record) \
	    $(if $(filter 0,$(TEXTS)),--ignore-texts)

PAIRS ?= 10

.PHONY: by-turns
by-turns: setup ## CPU time of schedulers and rounds next to another commit, by turns: BASE=checkout PAIRS=
	test -x '$(BASE)/$(BIN)/python' || $(MAKE) --directory '$(BASE)' setup
	$(BIN)/python -m lab.benchmarks.by_turns '$(BASE)' --pairs $(PAIRS)

.PHONY: paste-readme
paste-readme: setup system-servers ## README and the first job in a fresh clone, with the time of each step
	$(BIN)/python -m tests.support.paste

.PHONY: chart-files
chart-files: setup ## write the topics and users of the chart anew from proto/
	$(BIN)/python -m tests.helm.files

.PHONY: test-helm
test-helm: setup ## lint the chart, validate what it renders: HELM= tries another helm
	$(BIN)/python -m pytest tests/helm

.PHONY: sign-chart
sign-chart: setup ## the chart as a package that is signed, and its provenance: KEY=name KEYRING=file PASSPHRASE=file OUT=
	deploy/sign-chart.sh '$(OUT)' '$(KEY)' '$(KEYRING)' $(if $(PASSPHRASE),'$(PASSPHRASE)')

## Runs --------------------------------------------------------------------------------------

# In the whole environment where there is one, else in one that takes seconds; look-ahead has a solver.
DEMO_READY := $(if $(wildcard $(VENV)/.installed)$(filter look-ahead,$(POLICY)),$(VENV)/.installed,$(DEMO)/.ready)
.PHONY: demo
demo: JOBS = 300
demo: $(DEMO_READY) ## what a workload saves against plain EASY, no server: SEED= JOBS= POLICY= OUT= SWF= COEFFICIENTS= REPORTS=, all figures: FULL=1, with and without neighbours: SHARING=1
	$(dir $(DEMO_READY))bin/coplace demo $(WORKLOAD) $(if $(REPORTS),--reports '$(REPORTS)') \
	    $(if $(FULL),--full) $(if $(SHARING),--compare-sharing)

.PHONY: first-answers
first-answers: setup ## what make demo answers of seeds 1 to 5: OUT= INTO=document
	$(BIN)/python -m lab.benchmarks.first_answers --out '$(OUT)/first-answers' $(if $(INTO),--into '$(INTO)')

.PHONY: demo-kafka
demo-kafka: setup system-servers ## the same on real Kafka and Redis
	$(BIN)/coplace demo --kafka $(WORKLOAD) $(if $(REPORTS),--reports '$(REPORTS)')

.PHONY: demo-parity
demo-parity: setup system-servers ## run both and compare what they decided and charged
	$(BIN)/coplace demo-parity $(WORKLOAD)

.PHONY: bench
bench: setup system-servers ## measure throughput, latency and memory: GUARD=none|secure|table
	$(BIN)/python -m lab.benchmarks.system --out '$(OUT)' $(if $(GUARD),--guard $(GUARD))

.PHONY: bench-quick
bench-quick: setup system-counting ## what a job and a round cost beside the figures of before; fails where one is 15 % worse: RECORD=1
	$(BIN)/python -m lab.benchmarks.quick $(if $(RECORD),--record)

.PHONY: bench-idle
bench-idle: setup ## what the region that `coplace up` started takes of a core while nothing comes
	$(BIN)/python -m lab.benchmarks.system.idle

.PHONY: bench-region
bench-region: setup ## how many jobs and nodes one placement serves: rounds, memory, state: QUEUED=100000 NODES_OF_REGION=20000
	$(BIN)/python -m lab.benchmarks.region_size $(or $(QUEUED),100000) $(or $(NODES_OF_REGION),20000)

.PHONY: bench-watching
bench-watching: setup system-servers ## how long watchers over gRPC wait beside Kafka, and what a thousand cost placement
	$(BIN)/python -m lab.benchmarks.system.watching measure

.PHONY: bench-archive
bench-archive: JOBS = 1000000
bench-archive: setup ## a month of jobs through the archive: time, size: JOBS= OUT=
	$(BIN)/python -m lab.benchmarks.archive --jobs $(JOBS) --out '$(OUT)'

.PHONY: bench-placement
bench-placement: setup ## compare EAMC with its paper, play real logs: OUT= INTO=document, ONLY=claims RESUME=1 a part of it
	$(BIN)/python -m lab.papers.placement --out '$(OUT)/placement' \
	    $(if $(INTO),--into '$(INTO)') $(if $(ONLY),--only '$(ONLY)') $(if $(RESUME),--resume)

.PHONY: bench-waits
bench-waits: setup ## waits of logs by requests and by predicted run times: OUT= INTO=document
	$(BIN)/python -m lab.papers.waits --out '$(OUT)/waits' \
	    $(if $(INTO),--into '$(INTO)')

.PHONY: bench-look-ahead
bench-look-ahead: setup ## look-ahead and its parts against PriorityInc-V; goes on where it was stopped: OUT= INTO=document
	$(BIN)/python -m lab.papers.lookahead --out '$(OUT)/look-ahead' \
	    $(if $(INTO),--into '$(INTO)')

.PHONY: bench-prediction
bench-prediction: setup ## compare predictions of power with simpler ones: OUT= INTO=document
	OMP_NUM_THREADS=1 $(BIN)/python -m lab.papers.power --out '$(OUT)/power' \
	    $(if $(INTO),--into '$(INTO)')

.PHONY: bench-capping
bench-capping: setup ## dispatchers under a power cap beside what was published: OUT= SOLVERS=1 INTO=document
	$(CAPPING) --out '$(OUT)/capping' --instance _50_300_ --instance 100_900 --instance hist_100 \
	    $(CAPPING_SOLVERS) $(CAPPING_INTO)
	$(CAPPING).searched $(CAPPING_INTO)
	$(CAPPING).arrivals $(CAPPING_INTO)
	$(CAPPING).decisions $(CAPPING_INTO)
	$(CAPPING).margins $(CAPPING_SOLVERS) $(CAPPING_INTO)
	$(CAPPING).backfill $(CAPPING_INTO)
	$(CAPPING).clocks $(CAPPING_INTO)
	$(CAPPING).uncertain --out '$(OUT)/capping' $(CAPPING_INTO)
	$(CAPPING) --out '$(OUT)/capping/400' --instance rndm_400
CAPPING := $(BIN)/python -m lab.papers.capping
CAPPING_SOLVERS = $(if $(SOLVERS),--solvers)
CAPPING_INTO = $(if $(INTO),--into '$(INTO)')

.PHONY: bench-pricing
bench-pricing: setup system-compiler ## hold slowdowns by shutters to true ones: OUT= INTO=document
	$(BIN)/python -m lab.papers.pricing --out '$(OUT)/pricing' \
	    $(if $(INTO),--into '$(INTO)')

.PHONY: bench-colocation
bench-colocation: setup ## hold predictions of neighbours and pairing to pairs: OUT= INTO= ONLY=models
	OMP_NUM_THREADS=1 $(BIN)/python -m lab.papers.colocation --out '$(OUT)/colocation' \
	    $(if $(ONLY),--only-$(ONLY)) $(if $(INTO),--into '$(INTO)')

.PHONY: bench-truth
bench-truth: JOBS = 300
bench-truth: setup ## what each effect of the emulated truth costs predictions and savings: SEED= JOBS=
	$(BIN)/python -m lab.emulator.physics
	$(BIN)/python -m lab.demo.effects errors --seed $(SEED) --jobs $(JOBS)
	$(BIN)/python -m lab.demo.effects savings --seed $(SEED) --jobs $(JOBS)

.PHONY: bench-chaos
bench-chaos: JOBS = 200
bench-chaos: setup system-servers ## kill processes, turn clocks, lose data, and compare: SECURE=1
	$(BIN)/python -m tests.chaos.kills $(WORKLOAD) $(if $(SECURE),--secure)

.PHONY: watch-kills
watch-kills: KILLS = 9
watch-kills: JOBS = 1000
watch-kills: EXAMPLE = python
watch-kills: setup system-servers system-examples ## a resource manager over gRPC alone, killed with all that it needs: EXAMPLE=python|go|javascript SEED= JOBS= KILLS=
	$(BIN)/python -m tests.watch --seed $(SEED) --jobs $(JOBS) --kills $(KILLS) --example $(EXAMPLE)

# messages: of every type, to ingest and all stages; or one of the adapters, where SERVERS=1 asks for
# real servers: messages have `make attack` there.
ADAPTER ?= messages
RECORDS ?=

.PHONY: fuzz
fuzz: setup $(if $(SERVERS),system-servers) ## mutated records between honest ones, in process: ADAPTER=slurm|kubernetes|agents RECORDS= SEED=, on real servers: SERVERS=1
	$(BIN)/python -m tests.attacks.$(ADAPTER)$(if $(SERVERS),_servers) --seed $(SEED) \
	    $(if $(RECORDS),--records $(RECORDS))

JOBS_OF_ACCOUNTS ?= 40

.PHONY: slurm-accounts
slurm-accounts: setup system-servers ## jobs of every kind on a Slurm 24.11 with jobcomp/kafka and slurmdbd: charges beside its accounts: JOBS_OF_ACCOUNTS= SEED=
	$(BIN)/python -m tests.accounts --seed $(SEED) --jobs $(JOBS_OF_ACCOUNTS)

JOBS_OF_SLURM ?= 500
SEEDS ?= 1 2 3 4 5
SLURM ?= 22.05

.PHONY: e2e-slurm
e2e-slurm: setup system-servers system-slurm ## jobs of every kind under Coplace and plain Slurm side by side: JOBS_OF_SLURM= SEEDS="1 2" SLURM=24.11|newest KILLS=1
	$(BIN)/python -m tests.slurm --jobs $(JOBS_OF_SLURM) --seeds $(SEEDS) --slurm $(SLURM) \
	    $(if $(KILLS),--kills)

.PHONY: bench-slurm
bench-slurm: setup system-servers system-slurm ## what Coplace adds from submission to start, and its calls to slurmctld: SEED= NODES_OF_SLURM=1000
	$(BIN)/python -m tests.slurm.overhead --seed $(SEED) \
	    $(if $(NODES_OF_SLURM),--nodes $(NODES_OF_SLURM))

.PHONY: fuzz-rest
fuzz-rest: setup ## hostile HTTP requests to REST over real services, in process: RECORDS= SEED=
	$(BIN)/python -m tests.attacks.rest --seed $(SEED) $(if $(RECORDS),--records $(RECORDS))

.PHONY: fuzz-grpc
fuzz-grpc: setup ## hostile gRPC calls to every service, health and reflection, in process: RECORDS= SEED=
	$(BIN)/python -m tests.attacks.grpc_calls --seed $(SEED) $(if $(RECORDS),--records $(RECORDS))

.PHONY: starts
starts: setup system-servers ## every entry point in its empty state with every value of every setting: ONLY=services.planner
	$(BIN)/python -m tests.starts $(if $(ONLY),--only '$(ONLY)')

.PHONY: simulate-faults
simulate-faults: MINUTES = 2
simulate-faults: setup ## the whole system in virtual time under a seeded adversary: SEED= MINUTES=
	$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES)

.PHONY: simulate-asking
simulate-asking: MINUTES = 9
simulate-asking: setup ## as simulate-faults, where jobs ask for all that a job can: SEED= MINUTES=
	$(BIN)/python -m tests.chaos --asking --seed $(SEED) --minutes $(MINUTES)

.PHONY: kill-agent
kill-agent: KILLS = 1000
kill-agent: setup ## kill node agents at random points of their shutters: SEED= KILLS=
	$(BIN)/python -m tests.chaos.agent_kills --seed $(SEED) --kills $(KILLS)

KUBERNETES_VERSION ?= v1.34.1
ETCD_VERSION ?= v3.5.21

.PHONY: e2e-kubernetes-jobs
e2e-kubernetes-jobs: API_JOBS = 5000
e2e-kubernetes-jobs: setup system-servers ## Jobs over three real API servers, their manager killed: API_JOBS= CONTROLLERS=1 CHOOSING=1
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m lab.benchmarks.kubernetes --jobs $(API_JOBS) $(if $(CONTROLLERS),--controllers) \
	    $(if $(CHOOSING),--choosing) \
	    --programs "$$(deploy/build-kubernetes.sh $(KUBERNETES_VERSION) $(ETCD_VERSION))"

KUEUE_VERSION ?= v0.19.0

.PHONY: e2e-kueue
e2e-kueue: JOBS_OF_KUEUE = 60
e2e-kueue: setup system-servers ## six kinds of Workloads in a real Kueue, by turns without Coplace and with it: JOBS_OF_KUEUE=1000 SEED= KILLS=5 EARLIER=commit
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m tests.kueue --jobs $(JOBS_OF_KUEUE) --seed $(SEED) $(if $(KILLS),--kills $(KILLS)) $(if $(TURNS),--turns $(TURNS)) $(if $(EARLIER),--earlier $(EARLIER)) --ways-out \
	    --programs "$$(deploy/build-kubernetes.sh $(KUBERNETES_VERSION) $(ETCD_VERSION))" \
	    --kueue "$$(deploy/build-kueue.sh $(KUEUE_VERSION))"

.PHONY: e2e-multikueue
e2e-multikueue: JOBS_OF_KUEUE = 60
e2e-multikueue: setup system-servers ## a manager of MultiKueue and three workers, by turns with Kueue's dispatcher and Coplace's; a cap, a cut and kills: JOBS_OF_KUEUE= SEED= CAP=1.6 CUT=180 KILLS=4 EARLIER=commit
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m tests.kueue.multi --jobs $(JOBS_OF_KUEUE) --seed $(SEED) --cap $(or $(CAP),1.6) --cut-s $(or $(CUT),180) --kills $(or $(KILLS),4) $(if $(EARLIER),--earlier $(EARLIER)) --ways-out \
	    --programs "$$(deploy/build-kubernetes.sh $(KUBERNETES_VERSION) $(ETCD_VERSION))" \
	    --kueue "$$(deploy/build-kueue.sh $(KUEUE_VERSION))"

.PHONY: check-core
check-core: MINUTES = 2
check-core: setup ## random systems hold the scheduling core to its rules: SEED= MINUTES= of CPU
	$(BIN)/python -m tests.core --seed $(SEED) --minutes $(MINUTES)

.PHONY: check-eligibility
check-eligibility: MINUTES = 2
check-eligibility: setup ## who may start when, by brute force: SEED= MINUTES=
	$(BIN)/python -m tests.eligibility --seed $(SEED) --minutes $(MINUTES)
	$(BIN)/python -m tests.eligibility --seed $(SEED) --minutes $(MINUTES) --arrays
	$(BIN)/python -m tests.eligibility --seed $(SEED) --minutes $(MINUTES) --licences

# It goes on where it was left. KNOWN= is the folder of an earlier session, whose killed stay killed.
SESSION ?= build/mutants
KNOWN ?=

.PHONY: mutants
mutants: MUTANTS = 300
mutants: SECONDS = 30
mutants: setup ## random mutants of the schedulers, and how many the tests kill: SEED= MUTANTS= SECONDS= SESSION= KNOWN=
	$(BIN)/python -m tests.mutation --seed $(SEED) --mutants $(MUTANTS) --seconds $(SECONDS) \
	    --session '$(SESSION)' $(if $(KNOWN),--known '$(KNOWN)')

.PHONY: attack
attack: setup system-servers ## hostile records into every topic, hostile requests to ingest
	$(BIN)/python -m tests.attacks

.PHONY: tutorial
tutorial: setup ## play the day of docs/tutorial.md again and write what comes of it
	$(BIN)/python -m tests.tutorial

.PHONY: type-along
type-along: setup system-servers ## type the lines of docs/type-along.md on real services, and write what they print
	$(BIN)/python -m tests.tutorial.live

.PHONY: compose-check
compose-check: setup system-servers system-containers ## play a demo through the containers: SECURE=1
	$(BIN)/python -m deploy.compose.check $(if $(SECURE),--secure)

.PHONY: upgrade
upgrade: JOBS = 60
upgrade: setup system-servers ## from another commit to this one with jobs in flight, on real Kafka and Redis: FROM=commit SEED= JOBS=
	$(BIN)/python -m tests.upgrade '$(FROM)' --seed $(SEED) --jobs $(JOBS)

.PHONY: e2e-k8s-jobs
e2e-k8s-jobs: setup system-servers ## the adapter that the chart installs, on real API servers with simulated nodes
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m pytest -m thorough tests/e2e/test_adapter_of_the_chart.py \
		tests/e2e/test_executor_of_the_chart.py tests/e2e/test_chart_applied_twice.py

PLAY ?= waits

.PHONY: bench-k8s-jobs
bench-k8s-jobs: setup system-servers ## figures of that adapter: PLAY=waits|kills|memory, MORE="--jobs 10000 --nodes 5000"
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m tests.kubernetes_jobs $(PLAY) $(MORE) \
	    --programs "$$(deploy/build-kubernetes.sh $(KUBERNETES_VERSION) $(ETCD_VERSION))"

.PHONY: e2e-k8s-by-kueue
e2e-k8s-by-kueue: setup system-servers ## Jobs at a real worker whose Kueue lets them run, by turns by way of MultiKueue and by Coplace: MORE="--jobs 100 --kills 10"
	@deploy/require-commands.sh etcd:etcd-server openssl:openssl
	$(BIN)/python -m tests.kubernetes_jobs.by_kueue $(MORE) \
	    --programs "$$(deploy/build-kubernetes.sh $(KUBERNETES_VERSION) $(ETCD_VERSION))" \
	    --kueue "$$(deploy/build-kueue.sh $(KUEUE_VERSION))"

.PHONY: e2e-k8s
e2e-k8s: JOBS = 500
e2e-k8s: e2e-k8s-jobs system-containers system-kubernetes ## the chart on a real Kubernetes with real pods: SEED= JOBS=
	$(BIN)/python -m tests.cluster --seed $(SEED) --jobs $(JOBS)

.PHONY: docs
docs: setup ## build the documents as a site, all links checked: OUT=
	PYTHONPATH=.:client:agent $(BIN)/python -m documents --out '$(OUT)/site'

.PHONY: asyncapi
asyncapi: setup ## write the AsyncAPI document of the topics
	$(BIN)/coplace asyncapi --out '$(OUT)'

.PHONY: settings
settings: setup ## write what is generated of the policy's settings: their page, the chart's schema
	PYTHONPATH=.:client $(BIN)/python -m deploy.policy_documents

.PHONY: clean
clean: ## remove everything that the targets above built
	find shared -name '*.so' -delete
	rm -rf $(VENV) build */build dist client/coplace run *.egg-info */*.egg-info .mypy_cache .pytest_cache .ruff_cache \
	    .hypothesis .import_linter_cache .grimp_cache
