#!/usr/bin/env bash
# Runs one fuzz target: its seeds, then new inputs for HP_FUZZ_SECONDS (10). What it learns is kept for the next run in
# corpus/ beside the programs; an input that fails lies in findings/.
set -euo pipefail
program=$(realpath "$1")
name=$(basename "$program")
name=${name#fuzz_}
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$(dirname "$program")/../fuzz
seconds=${HP_FUZZ_SECONDS:-10} seed=${HP_FUZZ_SEED:-1}

mkdir -p "$work/corpus/$name" "$work/findings"
rm -rf "${work:?}/seeds/$name"{,.dict}
python3 "$here/seeds.py" "$name" "$work/seeds/$name"
inputs=("$work/corpus/$name" "$work/seeds/$name")
[[ ! -f $work/seeds/$name.dict ]] || inputs+=(-dict="$work/seeds/$name.dict")

echo "seed $seed"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Inputs over 64 KiB only cost time; an input that takes 10 s or 1 GiB is a finding.
exec "$program" -max_total_time="$seconds" -seed="$seed" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
  -malloc_limit_mb=1024 -artifact_prefix="$work/findings/$name-" -print_final_stats=1 "${inputs[@]}"
