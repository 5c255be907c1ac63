#!/usr/bin/env bash
# Trains one of the nets whose data has to be asked for, with all nodes of its table on this machine. Each of them has a
# run.sh that calls this one.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/NET/run.sh [--data DIR] [--iterations N] [--batch N] [--bin DIR]

Trains NET with the four nodes of examples/NET/table.prototxt on this machine, and prints their progress and images/s.
  --data DIR      DIR has train_leveldb and val_leveldb (and mean.binaryproto, where the net wants one): trains as
                  NET_solver.prototxt says. Without: a few images are drawn, for a look at how the net trains
  --iterations N  so many iterations; without --data 4
  --batch N       the training's batch size in place of the net's; without --data 16
  --bin DIR       takes the programs from DIR, installs and builds nothing

All output is in examples/NET/work/run/, which each run recreates. Ctrl-C stops the nodes too.
TEXT
}

bad_option() {
  echo "$example: $1" >&2
  usage >&2
  exit 2
}

example=${1:-} data='' iterations='' batch='' programs=''
[[ -f $(dirname "${BASH_SOURCE[0]}")/$example/table.prototxt && -n $example ]] || { usage >&2 && exit 2; }
shift
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --data | --iterations | --batch | --bin) [[ $# -ge 2 ]] || bad_option "$1 needs a value" ;;&
    --data) data=$(realpath -m "$2") && shift 2 ;;
    --iterations) iterations=$2 && shift 2 ;;
    --batch) batch=$2 && shift 2 ;;
    --bin) programs=$(realpath -m "$2") && shift 2 ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    *) bad_option "unknown argument $1" ;;
  esac
done
for number in "$iterations" "$batch"; do
  [[ -z $number || $number =~ ^[1-9][0-9]{0,8}$ ]] || bad_option "$number: expected a whole number above 0"
done

# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=examples/$example
work=$here/work/run # beside what users put into work/, where the net looks for its data
net=$(echo "$here/${example}"_train_*.prototxt)

if [[ -n $data ]]; then
  [[ $data/ != "$(realpath -m "$work")"/* ]] || fail "$data is made anew by each run; keep data elsewhere"
  for file in train_leveldb val_leveldb; do
    [[ -e $data/$file ]] || fail "$data/$file is missing"
  done
fi

if [[ -n $programs ]]; then
  bin=$programs
else
  build_programs hpnode convert_imageset convert_mnist_siamese_data compute_image_mean
fi
rm -rf "$work"
mkdir -p "$work"

# One of the databases, of what was drawn.
convert_drawn() {
  if [[ $example == mnist_siamese ]]; then
    "$bin/convert_mnist_siamese_data" "$work/images/images" "$work/images/labels" "$work/${1}_leveldb"
  else
    "$bin/convert_imageset" --backend=leveldb "${gray[@]}" "$work/images/" "$work/images/list.txt" "$work/${1}_leveldb"
  fi
}

# Images of the size that ImageNet's are stored in; MNIST's for its nets.
draw_data() {
  local part side=256 channels=3 classes=1000 gray=()
  if [[ $example == lenet || $example == mnist_* ]]; then
    side=28 channels=1 classes=10 gray=(--gray)
  fi
  say "drawing stand-in images; the loss says nothing of the net"
  python3 examples/make_images.py "$work/images" 64 $side $channels $classes
  for part in train val; do
    convert_drawn "$part" 2>"$work/convert.log" ||
      { tail -n 8 "$work/convert.log" >&2 && fail "the images could not be converted"; }
  done
  "$bin/compute_image_mean" --backend=leveldb "$work/train_leveldb" "$work/mean.binaryproto" 2>"$work/mean.log"
  iterations=${iterations:-4} batch=${batch:-16}
}

if [[ -n $data ]]; then
  for file in train_leveldb val_leveldb mean.binaryproto; do
    [[ ! -e $data/$file ]] || ln -s "$data/$file" "$work/$file"
  done
else
  draw_data
fi

# Net, solver and table as they stand, but for what the options say, and with ports that are free.
awk -v n="$batch" -v from="$here/work/" -v to="$work/" '
  n && /data_param/ && !done { sub(/batch_size: [0-9]+/, "batch_size: " n); done = 1 }
  { gsub(from, to); print }' "$net" >"$work/net.prototxt"
awk -v n="$iterations" -v from="$here/work/" -v to="$work/" -v drawn="$([[ -n $data ]] || echo 1)" '
  { gsub(from, to) }
  $1 == "net:" { $2 = "\"" to "net.prototxt\"" }
  n && $1 == "max_iter:" { $2 = n }
  drawn && $1 ~ /^(test_|iter_size)/ { next }
  drawn && $1 == "display:" { $2 = 1 }
  { print }' "$here/${example}_solver.prototxt" >"$work/solver.prototxt"
port=$(free_ports 4)
awk -v first="$port" '$1 == "port:" { $2 = first++ } $1 == "solver:" { $2 = "\"solver.prototxt\"" } { print }' \
  "$here/table.prototxt" >"$work/table.prototxt"
train "$work/table.prototxt" "$work"
say "the model: $PWD/$work/${example}_iter_$(solver_value "$work/solver.prototxt" max_iter).caffemodel"
