#!/usr/bin/env bash
# From a clone to a head of a million classes that trains over two FC nodes on this machine.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/million_classes/run.sh [--classes N] [--rate R] [--batch N]

Installs what is missing (Debian packages), builds Release, writes synthetic features as a LevelDB database, and trains
20 iterations with one conv node and two FC nodes on this machine over TCP. Prints what each node holds, what it sends
and receives, and images/s. Needs 6 GB of memory.

  --classes N  of the head, 1000000 if not given; memory and time are nearly in proportion
  --rate R     each iteration computes this part of the classes, and its labels (sample_rate); 1 if not given
  --batch N    images of an iteration, a multiple of 4; 64 if not given

All output is in examples/million_classes/work/, which each run recreates. Ctrl-C stops the nodes too.
TEXT
}

classes=1000000 rate=1 batch=64
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --classes | --rate | --batch) [[ $# -gt 1 ]] || { usage >&2 && exit 2; } ;;
    *) usage >&2 && exit 2 ;;
  esac
  declare "${1#--}=$2"
  shift 2
done

example=million_classes
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
here=examples/million_classes
work=$here/work
solver=$work/solver.prototxt

build_programs hpnode hproute convert_imageset

say "making features"
rm -rf "$work"
mkdir -p "$work"
sed "s/num_output: 1000000/num_output: $classes sample_rate: $rate/; s/batch_size: 64/batch_size: $batch/" \
  $here/million_classes_train.prototxt >"$work/train.prototxt"
sed "s,^net: .*,net: \"$work/train.prototxt\"," $here/million_classes_solver.prototxt >"$solver"
python3 $here/make_features.py --classes="$classes" "$work/images"
"$bin/convert_imageset" --gray --backend=leveldb "$work/images/" "$work/images/list.txt" "$work/features"

"$bin/hproute" --solver="$PWD/$solver" --conv=1 --fc=2 --hosts=127.0.0.1 --port="$(free_ports 3)" --micro_batches=4 \
  --out="$work/table.prototxt"
"$bin/hproute" --check "$work/table.prototxt" | sed -n '/^node/,$p'
train "$work/table.prototxt" "$work"
sed -n 's/^[^]]*\] *\(node .*: sent .*\)/\1/p' "$work"/*.log
sed -n 's/^[^]]*\] Iteration [0-9]* (\([0-9.]*\) iter.*/\1/p' "$work/fc0.log" | tail -n +2 | sort -n |
  awk -v batch="$batch" '{ rate[NR] = $1 } END { printf "'$example': %.1f images/s (median)\n", batch * rate[int((NR + 1) / 2)] }'
