#!/usr/bin/env bash
# Prints clang-tidy's advice (.clang-tidy) on these source files, by default on all that differ from HEAD.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [[ ${1:-} == -* ]]; then
  echo "usage: tools/dev/tidy.sh [FILE.cc ...]"
  exit 2
fi
command -v clang-tidy >/dev/null || { echo "tidy: needs clang-tidy (tools/dev/setup.sh --dev installs it)" >&2 && exit 2; }
files=("$@")
[[ $# -gt 0 ]] || mapfile -t files < <(git diff --name-only --diff-filter=d HEAD -- '*.cc')
[[ ${#files[@]} -gt 0 ]] || { echo "tidy: no changed .cc files" && exit 0; }

# The headers that protoc writes must be there.
tools/dev/build.sh threadsafety -DCMAKE_EXPORT_COMPILE_COMMANDS=ON hp_proto
exec clang-tidy --quiet -p build/threadsafety "${files[@]}"
