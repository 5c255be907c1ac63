#!/usr/bin/env bash
# Installs what is missing, builds Release and runs all tests. Works in a fresh clone and from any folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

werror=OFF
case ${1:-} in
  '') ;;
  --werror) werror=ON ;;
  *)
    echo "usage: test/run.sh [--werror]      --werror: compiler warnings are errors"
    exit 2
    ;;
esac

tools/dev/setup.sh
echo "run: building build/release"
tools/dev/build.sh release -DHP_WERROR=$werror
echo "run: all tests"
ctest --preset release -j 2
