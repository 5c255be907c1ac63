#!/usr/bin/env bash
# The tests that need a GPU of NVIDIA's, the first that CUDA_VISIBLE_DEVICES names, and jobs of two processes on it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: test/gpu.sh [BIN=FOLDER] [--sanitize [TOOL ...]]

Builds with CUDA, runs the tests that need a GPU, and trains the digits of examples/digits with a conv and an FC node as
two processes: both on the GPU, and one of them on the processors (in examples/digits/work/, as its run.sh).

  BIN=FOLDER   the programs are there already, as in a bundle on a host that can't build them:
                 tools/dev/build.sh cuda -DHP_MARCH=x86-64-v3 hp_package gpu_ops cuda_gpu_library gpu_nccl gpu_contract
                 tools/dev/bundle.sh build/cuda --add=gpu_ops,cuda_gpu_library,gpu_nccl,gpu_contract
               With bundle.sh --no_cuda the CUDA libraries are the host's: LD_LIBRARY_PATH says where they are.
  --sanitize   the tests alone under compute-sanitizer, tool by tool: memcheck, racecheck, synccheck and initcheck, or
               those named. racecheck and synccheck look at our own kernels only.
TEXT
  exit "$1"
}

programs=(gpu_ops cuda_gpu_library gpu_nccl gpu_contract)
folder='' tools=()
while [[ $# -gt 0 ]]; do
  case $1 in
    BIN=?*) folder=$(realpath "${1#BIN=}") && shift ;;
    --sanitize)
      shift
      tools=("${@:-memcheck racecheck synccheck initcheck}")
      read -ra tools <<<"${tools[*]}"
      break
      ;;
    -h | --help) usage 0 ;;
    *) usage 2 >&2 ;;
  esac
done

if [[ -z $folder ]]; then
  tools/dev/build.sh cuda "${programs[@]}" hpnode hproute model_test convert_mnist_data
  folder=$PWD/build/cuda/bin
fi
for program in "${programs[@]}"; do
  [[ -x $folder/$program ]] || { echo "gpu: no program $program in $folder" >&2 && exit 2; }
done

# Runs a program of tests. A device that has failed once stays so for its process, so what fails is tried again by
# itself: what passes then failed because of another.
run_tests() {
  local program=$1 log test
  log=$(mktemp)
  echo "gpu: $program"
  OMP_WAIT_POLICY=passive "$folder/$program" 2>&1 | tee "$log" || failed+=("$program")
  sed -nE 's/^\[  FAILED  \] ([^ ,]+)(, where.*)?$/\1/p' "$log" | sort -u | head -n 40 >"$log.tests"
  while read -r test; do
    if OMP_WAIT_POLICY=passive "$folder/$program" --gtest_filter="$test" >"$log" 2>&1 </dev/null; then
      echo "gpu: $test passes by itself"
    else
      echo "gpu: $test fails by itself:" && tail -n 30 "$log"
    fi
  done <"$log.tests"
  rm -f "$log" "$log.tests"
}

# Trains the digits with a conv and an FC node on these hosts, and tests the model: digits WORK_FOLDER HOST/DEVICE,...
digits() {
  local work=$1 solver=examples/digits/digits_solver.prototxt line
  echo "gpu: digits, conv and FC node on $2"
  "$bin/hproute" --solver="$PWD/$solver" --conv=1 --fc=1 --hosts="$2" --port="$(free_ports 2)" --out="$work/table.prototxt"
  train "$work/table.prototxt" "$work"
  if grep "graph capture failed" "$work"/*.log; then fail "a recording was refused, and kernels were launched one by one"; fi
  line=$(evaluate examples/digits/digits_train_test.prototxt \
    "$work/digits_iter_$(solver_value "$solver" max_iter).caffemodel" "$(solver_value "$solver" test_iter)" "$work")
  echo "$line"
  awk '/test accuracy/ { accuracy = $NF + 0 } END { exit accuracy < 96 }' <<<"$line" || fail "it has learned too little"
}

jobs_of_two() {
  example=gpu
  # shellcheck source=examples/common.sh
  source examples/common.sh
  bin=$folder
  local data=examples/digits/work hosts part
  rm -rf "$data" && mkdir -p "$data"
  python3 examples/digits/make_idx.py examples/digits/digits.csv.gz "$data"
  for part in train test; do
    "$bin/convert_mnist_data" "$data/$part-images" "$data/$part-labels" "$data/${part}_leveldb" --backend=leveldb
  done
  for hosts in "127.0.0.1/$gpu" "127.0.0.1/$gpu,127.0.0.1" "127.0.0.1,127.0.0.1/$gpu"; do digits "$data" "$hosts"; done
}

# What results depend on beside us.
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null || echo "gpu: no nvidia-smi here"
ldconfig -p 2>/dev/null | grep -q libnvjpeg || echo "gpu: libnvjpeg only where LD_LIBRARY_PATH names it; without it JPEGs are skipped"

if [[ ${#tools[@]} -eq 0 ]]; then
  failed=()
  for program in "${programs[@]}"; do run_tests "$program"; done
  gpu=cuda:0
  devices=$("$folder/hpnode" --list_devices)
  if grep -q '^cuda:0 ' <<<"$devices"; then
    set +e  # a subshell with its own -e: it ends at its first failing command
    (set -e && jobs_of_two)
    status=$?
    set -e
    [[ $status -eq 0 ]] || failed+=("the digits")
  else
    echo "gpu: no GPU: the digits are SKIPPED"
  fi
  if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'gpu: %s failed\n' "${failed[@]}" >&2
    exit 1
  fi
  exit
fi

for tool in "${tools[@]}"; do
  options=(--tool "$tool" --error-exitcode 1 --launch-timeout 0)
  # Calls that fail are seen by their callers; NVIDIA's libraries try some on purpose.
  [[ $tool == memcheck ]] && options+=(--report-api-errors no)
  # NVIDIA's libraries use barriers in ways that these two report; our kernels' names begin with our namespace.
  [[ $tool == racecheck || $tool == synccheck ]] && options+=(--kernel-name kns=_ZN2hp)
  for program in gpu_ops cuda_gpu_library; do
    echo "gpu: $tool of $program"
    compute-sanitizer "${options[@]}" "$folder/$program"
  done
  echo "gpu: $tool of gpu_contract, one table"
  compute-sanitizer "${options[@]}" "$folder/gpu_contract" --gtest_filter='*OneGpu'
done
