# Thin names: run.py knows what each command does, and needs no make.
#   make demo    make test ARGS="-k capture"    make demo PYTHON=python3.12 VENV=~/hardwon-venv
PYTHON ?= python3
COMMANDS := help demo test long harness check lint faults figures campaigns contract isolation soak scale agents guards serve bench evaluate requirements lying docs screenshots lock sbom audit ready

.PHONY: $(COMMANDS)
$(COMMANDS):
	@$(PYTHON) run.py $@ $(ARGS)
