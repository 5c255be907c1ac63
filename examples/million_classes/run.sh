#!/usr/bin/env bash
# From a clone to a head of a million classes that trains over two FC nodes on this machine.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/million_classes/run.sh

Installs what is missing (Debian packages), builds Release, writes synthetic features as a LevelDB database, and trains
20 iterations with one conv node and two FC nodes on this machine over TCP. Prints what each node holds, what it sends
and receives, and images/s. Needs 6 GB of memory.

All output is in examples/million_classes/work/, which each run recreates. Ctrl-C stops the nodes too.
TEXT
}

case ${1:-} in
  '') ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac

example=million_classes
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
here=examples/million_classes
work=$here/work
solver=$here/million_classes_solver.prototxt

build_programs hpnode hproute convert_imageset

say "making features"
rm -rf "$work"
mkdir -p "$work"
python3 $here/make_features.py "$work/images"
"$bin/convert_imageset" --gray --backend=leveldb "$work/images/" "$work/images/list.txt" "$work/features"

"$bin/hproute" --solver="$PWD/$solver" --conv=1 --fc=2 --hosts=127.0.0.1 --port="$(free_ports 3)" --micro_batches=4 \
  --out="$work/table.prototxt"
"$bin/hproute" --check "$work/table.prototxt" | sed -n '/^node/,$p'
train "$work/table.prototxt" "$work"
sed -n 's/^[^]]*\] *\(node .*: sent .*\)/\1/p' "$work"/*.log
sed -n 's/^[^]]*\] Iteration [0-9]* (\([0-9.]*\) iter.*/\1/p' "$work/fc0.log" | tail -n +2 | sort -n |
  awk '{ rate[NR] = $1 } END { printf "'$example': %.1f images/s (median)\n", 64 * rate[int((NR + 1) / 2)] }'
