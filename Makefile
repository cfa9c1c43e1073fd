# make demo: set up and run the main job.   make test: set up and pass the tests.
# make tiny: train the embedded model anew and rewrite the demonstration's data.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := configs/requirements.lock
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP_INSTALL := $(BIN)/pip install --quiet --constraint $(LOCK)

.PHONY: demo test lint lock tiny clean

demo: $(VENV)/.worker
	$(BIN)/onepass demo

test: $(VENV)/.test lint
	$(BIN)/pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The CPU build of torch comes from wherever pip already finds it; only if that fails from the
# PyTorch CPU wheel index.
$(VENV)/.worker: pyproject.toml $(LOCK)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[worker]' || $(PIP_INSTALL) --extra-index-url $(TORCH_CPU_INDEX) --editable '.[worker]'
	touch $@

$(VENV)/.test: $(VENV)/.worker
	$(PIP_INSTALL) --editable '.[worker,test]'
	touch $@

tiny: $(VENV)/.worker
	$(BIN)/onepass train-tiny

lock: $(VENV)/.test
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > $(LOCK)

clean:
	rm -rf $(VENV) out build *.egg-info
