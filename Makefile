# make demo   build the d=64 kernel under 96 KB, run it on real arrays, verify it (TORCH=1: with torch too)
# make test   run the whole test suite
# Both make .venv first if it is not there. Only Python >= 3.11, make and a C++ compiler are needed.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint format golden clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -n 3
	@echo "make lint   ruff, mypy and the import rules alone"
	@echo "make format rewrite the Python files in the house style"
	@echo "make golden render the committed reference kernels anew"
	@echo "make clean  remove .venv and everything generated"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "flashgen needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: pyproject.toml constraints.txt hatch_build.py | $(VENV)/made
	@echo "Installing flashgen into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-torch: $(VENV)/installed
	@echo "Installing torch ..."
	@$(PIP) --editable '.[torch]'
	@touch $@

$(VENV)/installed-test: pyproject.toml constraints.txt hatch_build.py | $(VENV)/made
	@echo "Installing flashgen and its test tools into $(VENV) ..."
	@$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/installed

demo: $(VENV)/installed $(if $(TORCH),$(VENV)/installed-torch)
	@$(PY) -m flashgen build --d 64 --sram 96KB --verify
	@$(PY) examples/quickstart.py
	@$(PY) -m flashgen bench --n 512 --dtype fp32,fp16 --rounds 5

test: $(VENV)/installed-test
	@$(PY) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/installed-test
	@$(PY) -m pytest tests/house $(PYTEST_ARGS)

format: $(VENV)/installed-test
	@$(PY) -m ruff check --fix --quiet .
	@$(PY) -m ruff format .

golden: $(VENV)/installed-test
	@$(PY) -m pytest tests/golden --update-golden --quiet

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find generated -mindepth 1 -maxdepth 1 ! -name reference ! -name README.md -exec rm -rf {} +
