#!/usr/bin/env bash
# From a clone to a trained and tested model of handwritten digits, on this machine.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/digits/run.sh

Installs what is missing (Debian packages), builds Release, writes the digits as LevelDB databases, trains with two conv
nodes and two FC nodes on this machine over TCP, and prints the test accuracy and the path of the model.

All output is in examples/digits/work/, which each run recreates. Ctrl-C stops the nodes too.
TEXT
}

case ${1:-} in
  '') ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac

example=digits
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
here=examples/digits
work=$here/work
solver=$here/digits_solver.prototxt

build_programs hpnode hproute model_test convert_mnist_data

say "converting the data"
rm -rf "$work"
mkdir -p "$work"
python3 $here/make_idx.py $here/digits.csv.gz "$work"
for part in train test; do
  "$bin/convert_mnist_data" "$work/$part-images" "$work/$part-labels" "$work/${part}_leveldb" --backend=leveldb
done

"$bin/hproute" --solver="$PWD/$solver" --conv=2 --fc=2 --hosts=127.0.0.1 --port="$(free_ports 4)" \
  --out="$work/table.prototxt"
train "$work/table.prototxt" "$work"
evaluate $here/digits_train_test.prototxt "$work/digits_iter_$(solver_value $solver max_iter).caffemodel" \
  "$(solver_value $solver test_iter)" "$work"
