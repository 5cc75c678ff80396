# SPDX-License-Identifier: Apache-2.0
# Thin: tools/setup installs what is missing, CMake builds, CTest tests. On a fresh Debian or Ubuntu
# machine `make demo` and `make check` need nothing but make.
#
#   make            build/release: libpawl.so, libpawl.a, the command, the example trainer
#   make demo       train, kill, resume, compare bit for bit (3 minutes); then demo-ranks
#   make demo-ranks     the same on 4 ranks under mpirun, then on 3 and on 6 (1 minute)
#   make demo-torch     a small GPT in PyTorch, killed 20 times, plain and on 2 ranks (8 minutes)
#   make check      every test, at a size that fits 15 minutes on 2 cores
#   make check-torch      the Python package with PyTorch and its friends, from PyPI into build/torch
#   make check-formats    other tools' checkpoints, with those tools, from PyPI into build/formats
#   make check-tf         pawl.tf and pawl.keras, with TensorFlow, in the same place
#   make check-wheel      the wheel in an environment of its own: what it asks for, the README's Python
#   make check-threads    the same tests on a build without io_uring, which writes by threads
#   make proofs     the long form of the proofs, on all cores; table, and build/proofs.json
#   make powerloss  cut the power below ext4, xfs and btrfs, as root (10 minutes); table.
#                   POWERLOSS_ARGS=--help
#   make bench      measure against the device, memcpy and everyone else's libraries (45 minutes);
#                   table, and bench/results/latest.json. BENCH_ARGS=--help
#   make bench-quick    against the device alone, at 1 GiB (5 minutes)
#   make bench-torch    what saving costs a training loop in PyTorch, on 1, 2 and 4 ranks, beside four
#                       others (20 minutes). BENCH_ARGS=--help
#   make bench-keras    what saving costs fit of Keras, beside Keras's callbacks and TensorFlow's managers
#                       (20 minutes). BENCH_ARGS=--help
#   make bench-formats  reading and converting checkpoints of other tools, beside these tools, at 4 GiB
#                       (20 minutes). BENCH_ARGS="--gib 1", BENCH_ARGS=--help
#   make asan tsan  the tests under AddressSanitizer and UBSan, ThreadSanitizer
#   make fuzz       every parser under libFuzzer with ASan and UBSan (clang), FUZZ_SECONDS=30 each,
#                   JOBS at a time; table, findings in build/fuzz/found. FUZZ_ARGS=--help
#   make lint       clang-tidy, cppcheck, clang-format; ruff, mypy     make format   format the C files
#   make abi        did the interface change so that compiled programs break? (abidiff)
#   make docs       pages of the Python package out of its docstrings: build/docs/index.html
#   make wheel      the Python package, with library and command inside: dist/pawl-*.whl
#   make install    PREFIX=/usr/local DESTDIR=
#
# JOBS=n: processes at a time [one per core, and one more that test]. WERROR=ON: compiler warnings are errors [in CI].

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
WERROR ?= $(if $(CI),ON,OFF)
BUILD = tools/build $(1) -DPAWL_WERROR=$(WERROR) -DCMAKE_INSTALL_PREFIX=$(PREFIX)
export JOBS

release:
	@tools/setup --check build example test
	@$(call BUILD,release)

demo:
	@tools/setup build example test
	@$(call BUILD,release)
	@sh examples/charlm/demo.sh build/release
	@echo
	@sh examples/charlm/demo_ranks.sh build/release

demo-ranks:
	@tools/setup build example test
	@$(call BUILD,release)
	@sh examples/charlm/demo_ranks.sh build/release

demo-torch:
	@tools/setup build example test torch
	@$(call BUILD,release)
	@sh examples/gpt_torch/demo.sh build/release build/torch/bin/python3

check:
	@tools/setup build example test python
	@$(call BUILD,release)
	@tools/test release

check-torch:
	@tools/setup build example test python torch
	@$(call BUILD,release)
	@tools/test release torch

check-formats:
	@tools/setup build example test python formats
	@$(call BUILD,release)
	@tools/test release formats

check-tf:
	@tools/setup build example test python formats
	@$(call BUILD,release)
	@tools/test release tf

check-threads:
	@tools/setup build example test python
	@$(call BUILD,threads)
	@tools/test threads

proofs:
	@tools/setup build example test python
	@$(call BUILD,release)
	@sh tests/proofs/run.sh build/release --full

powerloss:
	@tools/setup build example test rig
	@$(call BUILD,release)
	@python3 -B tests/powerloss/powerloss.py --programs build/release/tests/powerloss \
	    --pawl build/release/cli/pawl $(if $(JOBS),--jobs $(JOBS)) $(POWERLOSS_ARGS)

docs:
	@tools/setup build torch
	@$(call BUILD,release)
	@PAWL_LIBRARY=build/release/src/libpawl.so build/torch/bin/python3 -B tools/python_docs.py build/docs
	@echo build/docs/index.html

bench bench-quick:
	@tools/setup build example test bench
	@$(call BUILD,release)
	@python3 bench/bench.py $(if $(filter bench-quick,$@),--quick) $(BENCH_ARGS)

bench-torch:
	@tools/setup build example test torch
	@$(call BUILD,release)
	@build/torch/bin/python3 bench/torch_loop.py $(BENCH_ARGS)

bench-formats:
	@tools/setup build example test torch
	@$(call BUILD,release)
	@build/torch/bin/python3 bench/formats.py $(BENCH_ARGS)

bench-keras:
	@tools/setup build example test formats
	@$(call BUILD,release)
	@build/formats/bin/python3 bench/keras_fit.py $(BENCH_ARGS)

asan tsan:
	@tools/setup build example test python
	@$(call BUILD,$@)
	@tools/test $@

fuzz:
	@tools/setup build test fuzz
	@WERROR=$(WERROR) tools/fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

lint:
	@tools/setup build example test python lint
	@$(call BUILD,release)
	@tools/lint build/release

abi:
	@tools/setup build example test lint
	@$(call BUILD,release)
	@tools/abi build/release

format:
	@tools/setup lint
	@tools/format

wheel:
	@tools/setup build wheel
	@tools/wheel

check-wheel: wheel
	@python3 -B tests/install/test_wheel.py --environment build/wheel-environment --work build/wheel-check \
	    "$$(ls -t dist/pawl-*.whl | head -n 1)"

install:
	@tools/setup --check build example test
	@$(call BUILD,release)
	@cmake --install build/release

clean:
	rm -rf build/release build/debug build/asan build/tsan build/threads build/fuzz build/wheel build/wheel-raw \
	    build/wheel-check

.PHONY: release demo demo-ranks demo-torch check check-torch check-formats check-tf check-threads proofs powerloss bench \
    bench-quick bench-torch bench-keras bench-formats \
    asan tsan fuzz lint abi format docs wheel check-wheel install clean
