#!/usr/bin/env bash
# System packages: a C++ compiler for builds that compile, and the allocator the image preloads.
set -euo pipefail
apt-get update
apt-get install --yes --no-install-recommends g++ libtcmalloc-minimal4
rm -rf /var/lib/apt/lists/*
