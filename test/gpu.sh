#!/usr/bin/env bash
# Builds with CUDA and runs the tests that need a GPU of NVIDIA's, the first that CUDA_VISIBLE_DEVICES names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: test/gpu.sh [--sanitize [TOOL ...]]

  --sanitize   under compute-sanitizer, tool by tool: memcheck, racecheck, synccheck and initcheck, or those named.
               racecheck and synccheck look at our own kernels only.
TEXT
  exit 2
}

programs=(gpu_ops cuda_gpu_library gpu_nccl gpu_contract)
tools=()
if [[ ${1:-} == --sanitize ]]; then
  shift
  tools=("${@:-memcheck racecheck synccheck initcheck}")
  read -ra tools <<<"${tools[*]}"
elif [[ $# -gt 0 ]]; then
  usage
fi

tools/dev/build.sh cuda "${programs[@]}"
if [[ ${#tools[@]} -eq 0 ]]; then
  for program in "${programs[@]}"; do
    echo "gpu: $program"
    OMP_WAIT_POLICY=passive "build/cuda/bin/$program"
  done
  exit
fi

for tool in "${tools[@]}"; do
  options=(--tool "$tool" --error-exitcode 1 --launch-timeout 0)
  # NVIDIA's libraries use barriers in ways that these two report; our kernels' names begin with our namespace.
  [[ $tool == racecheck || $tool == synccheck ]] && options+=(--kernel-name kns=_ZN2hp)
  for program in gpu_ops cuda_gpu_library; do
    echo "gpu: $tool of $program"
    compute-sanitizer "${options[@]}" "build/cuda/bin/$program"
  done
  echo "gpu: $tool of gpu_contract, one table"
  compute-sanitizer "${options[@]}" build/cuda/bin/gpu_contract --gtest_filter='*OneGpu'
done
