#!/usr/bin/env bash
# CIFAR-10 from its binary files to a trained and tested model, on this machine.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: examples/cifar10/run.sh [--data DIR] [--net quick|full|full_sigmoid_bn] [--iterations N] [--cluster]
                               [--bin DIR]

Installs what is missing (Debian packages), builds Release, writes CIFAR-10 as LevelDB databases, trains on this machine
over TCP, and prints the test accuracy and the path of the model.

  --data DIR       folder with CIFAR-10's binary files, data_batch_1.bin to data_batch_5.bin and test_batch.bin;
                   without it they are downloaded from the CIFAR-10 home page (170 MB) and verified
  --net quick      Caffe's cifar10_quick on 2 conv and 2 FC nodes, 5,000 iterations (the default)
  --net full       Caffe's cifar10_full on 2 conv and 2 FC nodes, 70,000 iterations: hours on a few cores
  --net full_sigmoid_bn
                   the same with sigmoids and BatchNorm, 60,000 iterations
  --iterations N   trains for N iterations instead; the learning rate steps are scaled accordingly
  --cluster        trains on hosts: network namespaces on a switch, each with an address, an sshd and one node, and one
                   host more with hpserver, which hands out the table of the first half of the iterations, and Redis,
                   through which the nodes agree on that of the second. Needs root, openssh-server, openssh-client and
                   redis-server. Nothing of it is left when the script ends, however that is
  --bin DIR        takes the programs from DIR, installs and builds nothing

All output is in examples/cifar10/work/; each run recreates it, except for the download. Ctrl-C stops the nodes too.
TEXT
}

bad_option() {
  echo "cifar10: $1" >&2
  usage >&2
  exit 2
}

data='' net=quick iterations='' cluster='' programs=''
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --data | --net | --iterations | --bin) [[ $# -ge 2 ]] || bad_option "$1 needs a value" ;;&
    --data) data=$(realpath -m "$2") && shift 2 ;;
    --net) net=$2 && shift 2 ;;
    --iterations) iterations=$2 && shift 2 ;;
    --cluster) cluster=1 && shift ;;
    --bin) programs=$(realpath -m "$2") && shift 2 ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    *) bad_option "unknown argument $1" ;;
  esac
done
[[ $net == quick || $net == full || $net == full_sigmoid_bn ]] ||
  bad_option "--net $net: expected quick, full or full_sigmoid_bn"
[[ -z $cluster || $net != full_sigmoid_bn ]] ||
  bad_option "--cluster: expected --net quick or full; full_sigmoid_bn wants the table that lies beside it"
[[ -z $iterations || ($iterations =~ ^[1-9][0-9]{0,8}$ && $iterations -gt 1) ]] ||
  bad_option "--iterations $iterations: expected a whole number above 1"

example=cifar10
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# shellcheck source=examples/cluster_hosts.sh
source examples/cluster_hosts.sh
here=examples/cifar10
work=$here/work

# The binary files from the home page of CIFAR-10, kept from run to run; sets data.
download() {
  local url=https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz md5=c32a1d4ab5d03f1284b67883e8d87530
  local archive=$work/download/cifar-10-binary.tar.gz
  mkdir -p "$work/download"
  if [[ ! -f $archive ]]; then
    say "downloading $url"
    python3 $here/download.py "$url" "$archive.part" ||
      fail "could not download CIFAR-10; without a network, give its binary files with --data DIR"
    mv "$archive.part" "$archive"
  fi
  if ! echo "$md5  $archive" | md5sum --check --status; then
    rm "$archive"
    fail "$url: wrong MD5 sum, expected $md5; removed the download, run this again"
  fi
  tar -xzf "$archive" -C "$work/download"
  data=$work/download/cifar-10-batches-bin
}

check_data() {
  local file bytes
  for file in data_batch_{1..5}.bin test_batch.bin; do
    [[ -f $data/$file ]] || fail "$data/$file is missing"
    bytes=$(stat -Lc %s "$data/$file")
    [[ $bytes -eq 30730000 ]] || fail "$data/$file has $bytes bytes, expected 10,000 records of 3,073"
  done
}

# The solver as it stands, or with its iterations scaled to N; steps that fall together become one.
write_solver() {
  awk -v n="$iterations" -v all="$(solver_value "$here/cifar10_${net}_solver.prototxt" max_iter)" '
    n && $1 ~ /^(stepvalue|max_iter):$/ { $2 = int($2 * n / all) }
    $1 == "stepvalue:" && $2 <= last { next }
    $1 == "stepvalue:" { last = $2 }
    { print }' "$here/cifar10_${net}_solver.prototxt" >"$solver"
}

# Said before anything takes long. Not installed: their packages start daemons on this machine.
check_cluster() {
  local missing=()
  [[ $(id -u) -eq 0 ]] || fail "--cluster needs root, to make hosts out of network namespaces"
  mapfile -t missing < <(packages_for_hosts)
  type -P redis-server redis-cli >/dev/null || missing+=(redis-server)
  [[ ${#missing[@]} -eq 0 ]] || fail "--cluster needs Debian packages that are not installed: ${missing[*]}"
  unshare --mount --net true || fail "--cluster needs network namespaces, which this machine does not allow"
}

# Ends with the cluster; its end ends all that runs in it.
train_on_cluster() {
  local status=0 start=$SECONDS
  in_own_namespaces $here/cluster.sh "$@" &
  cluster=$!
  trap 'kill -KILL $cluster 2>/dev/null || true' EXIT
  trap 'say interrupted >&2; exit 130' INT TERM
  wait $cluster || status=$?
  [[ $status -eq 0 ]] || exit $status
  trap - EXIT INT TERM
  say "trained on the cluster in $((SECONDS - start)) s"
}

[[ -z $cluster ]] || check_cluster
if [[ -n $programs ]]; then
  bin=$programs
else
  tools/dev/setup.sh
fi
[[ -n $data ]] || download
check_data
[[ -n $programs ]] || build_programs hpnode hproute hpserver model_test convert_cifar_data compute_image_mean

say "converting the data"
mkdir -p "$work"
find "$work" -mindepth 1 -maxdepth 1 ! -name download -exec rm -rf {} +
"$bin/convert_cifar_data" "$data" "$work" leveldb
"$bin/compute_image_mean" --backend=leveldb "$work/cifar10_train_leveldb" "$work/mean.binaryproto"

# The table beside the net, with ports that are free.
write_table() {
  awk -v first="$(free_ports 4)" \
    '$1 == "port:" { $2 = first++ } $1 == "solver:" { $2 = "\"solver.prototxt\"" } { print }' \
    "$here/cifar10_${net}_table.prototxt" >"$work/table.prototxt"
}

solver=$work/solver.prototxt
write_solver
if [[ -n $cluster ]]; then
  train_on_cluster "$(realpath "$bin")" "$work" 2 2 "$solver"
else
  write_table
  train "$work/table.prototxt" "$work"
fi
evaluate "$here/cifar10_${net}_train_test.prototxt" \
  "$work/cifar10_${net}_iter_$(solver_value "$solver" max_iter).caffemodel" "$(solver_value "$solver" test_iter)" "$work"
