#!/usr/bin/env bash
# Installs what is missing, builds Release and runs all tests. Works in a fresh clone and from any folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for option in "$@"; do
  [[ $option == -D* ]] || { echo "usage: test/run.sh [-DNAME=VALUE ...]      options of CMake" && exit 2; }
done

tools/dev/setup.sh
echo "run: building build/release"
tools/dev/build.sh release "$@"
echo "run: all tests"
ctest --preset release -j 2
