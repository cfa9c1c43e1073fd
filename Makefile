# make demo: set up and run the main job.   make test: set up and pass the tests.
# make tiny: train the embedded model anew and rewrite the demonstration's data.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := configs/requirements.lock
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
# Compile what is imported, and keep it, rather than all 33,000 files of the installation.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(BIN)/pip install --quiet --no-compile --constraint $(LOCK)

.PHONY: demo test lint lock tiny clean chromium compare

demo: $(VENV)/.worker
	$(BIN)/onepass demo

test: $(VENV)/.test chromium lint
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# The report is tested in a real browser. Where this cannot install one, its tests fail and say so.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	{ test "$$(id -u)" = 0 && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; } || \
	echo "No Chromium, and it cannot be installed from here: install the package chromium." >&2

# Which of flag, label sets, precision and batch shape moves decisions? One run of each build, the
# baseline twice, then the comparison and its report. JOB=jevbench-240 asks more questions.
JOB ?= demo
COMPARED := out/compare
RUN_ID := $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["run_id"])'
compare: $(VENV)/.worker
	@set -e; decide() { $(BIN)/onepass run $(JOB) --build $$1 --output $(COMPARED) --json | $(RUN_ID); }; \
	baseline=$$(decide baseline); repeat=$$(decide baseline); single_pass=$$(decide single_pass); \
	flag_off=$$(decide flag_off); serial=$$(decide serial); fp32=$$(decide fp32); \
	$(BIN)/onepass diff $$baseline $$single_pass $$flag_off $$serial --factors --output $(COMPARED) \
	  --noise $$repeat --fp32 $$fp32; \
	$(BIN)/onepass report --output $(COMPARED)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The CPU build of torch comes from wherever pip already finds it; only if that fails from the
# PyTorch CPU wheel index.
$(VENV)/.worker: EXTRAS := worker
$(VENV)/.test: EXTRAS := worker,test
$(VENV)/.worker $(VENV)/.test: pyproject.toml $(LOCK)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[$(EXTRAS)]' || \
	  $(PIP_INSTALL) --extra-index-url $(TORCH_CPU_INDEX) --editable '.[$(EXTRAS)]'
	touch $(VENV)/.worker $@

tiny: $(VENV)/.worker
	$(BIN)/onepass train-tiny

lock: $(VENV)/.test
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > $(LOCK)

clean:
	rm -rf $(VENV) out build *.egg-info
