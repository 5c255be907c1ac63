#!/usr/bin/env bash
# Configures and builds one of the presets of CMakePresets.json, with ccache where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tools/dev/build.sh PRESET [-DNAME=VALUE ...] [--tests LABELS | TARGET ...]

  TARGET ...      builds these only                             tools/dev/build.sh release hpnode hproute
  --tests LABELS  builds only what tests with these labels need tools/dev/build.sh tsan --tests threads
TEXT
  exit 2
}

[[ $# -ge 1 && $1 != -* ]] || usage
preset=$1
shift
options=()
while [[ ${1:-} == -D* ]]; do
  options+=("$1")
  shift
done
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_SLOPPINESS=pch_defines,time_macros # as it asks for where headers are precompiled
fi

# Configuring is silent unless it fails: its pages say nothing new the second time.
mkdir -p build
log=build/configure-$preset.log
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi

targets=("$@")
if [[ ${1:-} == --tests ]]; then
  [[ $# -eq 2 ]] || usage
  mapfile -t targets < <(tools/dev/test_targets.py "build/$preset" "$2")
  [[ ${#targets[@]} -gt 0 ]] || { echo "build: no targets to build for tests with the labels $2" && exit 0; }
fi
exec cmake --build --preset "$preset" ${targets[@]:+--target "${targets[@]}"}
