#!/usr/bin/env bash
# Formats all C++ files with .clang-format, or only names those that differ (--check: exit status 1 if there are any).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Other versions of clang-format lay the same rules out differently.
want=14
tool=$(command -v clang-format-$want || command -v clang-format || true)
if [[ -z $tool ]] || ! "$tool" --version | grep -q "version $want\."; then
  echo "format: needs clang-format $want (tools/dev/setup.sh --dev installs it)" >&2
  exit 2
fi

files() {
  find include src transport scheduler solvers tools examples test -name work -prune -o \
    -type f \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0
}

case ${1:-} in
  '') files | xargs -0 -r "$tool" -i ;;
  --check) files | xargs -0 -r "$tool" --dry-run -Werror && echo "format: all files are formatted" ;;
  *) echo "usage: tools/dev/format.sh [--check]" && exit 2 ;;
esac
