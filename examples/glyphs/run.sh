#!/usr/bin/env bash
# From fonts to a model of all Chinese characters that they share, tested on a font that it has not seen.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/glyphs/run.sh [--characters N] [--iterations N] [--seed N]

Installs what is missing (Debian packages, fonts among them), builds Release, renders Chinese characters of seven fonts
as an LMDB database, trains with two conv nodes and two FC nodes on this machine over TCP, and prints the test accuracy
and the retrieval scores on an eighth font.

  --characters N   that many, drawn of those that all fonts have; all of them, 18,366, if not given
  --iterations N   of 256 images, 3000 if not given; the learning rate falls to 0 over them
  --seed N         of the characters drawn and of their distortions, 1 if not given

All output is in examples/glyphs/work/, which each run recreates. Ctrl-C stops the nodes too.
TEXT
}

bad_option() {
  echo "glyphs: $1" >&2
  usage >&2
  exit 2
}

characters=0 iterations='' seed=1
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --characters | --iterations | --seed) [[ $# -ge 2 ]] || bad_option "$1 needs a value" ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
    *) bad_option "unknown argument $1" ;;
  esac
  [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || bad_option "$1 $2: expected a whole number above 0"
  declare "${1#--}=$2"
  shift 2
done

example=glyphs
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
here=examples/glyphs
work=$here/work
solver=$work/solver.prototxt
net=$work/train_test.prototxt

tools/dev/setup.sh --glyphs
build_programs hpnode hproute model_test

say "rendering"
rm -rf "$work"
mkdir -p "$work"
# Debian's own python3, since the packages are for it.
/usr/bin/python3 $here/make_glyphs.py --characters="$characters" --seed="$seed" "$work"
characters=$(wc -l <"$work/characters.txt")

# The net with as many classes as there are characters, and batches that divide the test images.
for ((batch = 512; characters % batch; batch--)); do :; done
sed "s/num_output: 18366/num_output: $characters/; s/batch_size: 6 /batch_size: $batch /" \
  $here/glyphs_train_test.prototxt >"$net"
sed "s,^net: .*,net: \"$net\",; ${iterations:+s/^max_iter: .*/max_iter: $iterations/}" $here/glyphs_solver.prototxt >"$solver"

"$bin/hproute" --solver="$PWD/$solver" --conv=2 --fc=2 --hosts=127.0.0.1 --port="$(free_ports 4)" \
  --out="$work/table.prototxt"
train "$work/table.prototxt" "$work"
model=$work/glyphs_iter_$(solver_value "$solver" max_iter).caffemodel
evaluate "$net" "$model" $((characters / batch)) "$work"
/usr/bin/python3 $here/retrieval.py $here/glyphs_features.prototxt "$model" "$work"
