#!/usr/bin/env bash
# program.sh SOURCE: onepass itself, without touching the packages that are there.
set -euo pipefail
pip install --no-cache-dir --no-deps --no-build-isolation "$1"
rm -rf "$1"
pip check
onepass --help >/dev/null
