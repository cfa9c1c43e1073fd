#!/usr/bin/env bash
# packages.sh REQUIREMENTS [EXTRA_INDEX]: every package a worker needs, each checked by its hash;
# then stable names for the libraries that ENV LD_PRELOAD points to.
set -euo pipefail
requirements=$1
preload=${PRELOAD_FOLDER:-/opt/onepass/preload}
pip install --no-cache-dir --no-deps --require-hashes ${2:+--extra-index-url "$2"} \
  --requirement "$requirements"
mkdir -p "$preload"
torch=$(python -c "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])")
# A gigabyte of GPU compiler that a package asks for and the CPU backend does not use.
rm -rf "$torch/../triton"
ln -sf "$torch/lib/libgomp.so.1" "$preload/libgomp.so.1"
ln -sf "$(ldconfig -p | awk '/libtcmalloc_minimal.so.4/ {print $NF; exit}')" \
  "$preload/libtcmalloc_minimal.so"
test -e "$preload/libgomp.so.1"
test -e "$preload/libtcmalloc_minimal.so"
