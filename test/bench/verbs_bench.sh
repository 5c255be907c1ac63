#!/usr/bin/env bash
# The verbs transport beside perftest's ib_write_bw and ib_write_lat, size by size in one run.
# usage: test/bench/verbs_bench.sh [PATH/TO/transport_bench]   (default: build/release/bin/transport_bench)
# Between two devices of this host; in a machine with software RDMA: test/rdma-vm/run test/bench/verbs_bench.sh ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bench=${1:-build/release/bin/transport_bench}
sizes=${SIZES:-"64 4096 65536 262144 1048576 4194304 16777216 67108864"}
repeats=${REPEATS:-3}
time_ms=${TIME_MS:-1000}  # of each of our measurements
volume=${VOLUME:-50000000}  # bytes of each of perftest's
addresses=${ADDRESSES:-10.77.0.1,10.77.0.2}
devices=${DEVICES:-rxe0,rxe1}
gid_index=${GID_INDEX:-1}

for tool in ib_write_bw ib_write_lat; do
  command -v $tool >/dev/null || { echo "no $tool (apt-get install perftest)" >&2 && exit 2; }
done
[[ -x $bench ]] || { echo "no $bench: build the target transport_bench first" >&2 && exit 2; }

# Requests of one run: at least 10, at most 5000.
count() { local n=$((volume / $1)); echo $((n > 5000 ? 5000 : n < 10 ? 10 : n)); }

# perftest PROGRAM SIZE COLUMN: that column of its one line of results.
perftest() {
  local options=(-F -x "$gid_index" -s "$2" -n "$(count "$2")") server
  "$1" -d "${devices%,*}" "${options[@]}" >/dev/null 2>&1 &
  server=$!
  until [[ -n $(ss -Hltn "sport = :18515") ]]; do sleep 0.1; done
  "$1" -d "${devices#*,}" "${options[@]}" "${addresses%,*}" 2>/dev/null |
    awk -v size="$2" -v column="$3" '$1 == size {print $column}'
  wait "$server" || true
}
best() { sort -g | if [[ $1 == min ]]; then head -1; else tail -1; fi; }

echo "load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) cores"
printf '%10s | %12s %12s | %10s %12s %6s | %9s\n' bytes 'half rt/us' ib_write_lat MB/s ib_write_bw ratio 'CPU s/GB'
for size in $sizes; do
  ours=() theirs=() latencies=() their_latencies=() cpu=-
  for ((i = 0; i < repeats; ++i)); do  # in turn, so that what disturbs the machine disturbs both
    read -r _ latency rate cpu < <("$bench" --transport=verbs --addresses="$addresses" --header=false \
      --sizes="$size" --repeats=1 --time_ms="$time_ms" --pin=false 2>/dev/null)
    ours+=("$rate") latencies+=("$latency")
    # It counts in units of 2^20 bytes.
    theirs+=("$(perftest ib_write_bw "$size" 4 | awk '{printf "%.1f", $1 * 1.048576}')")
    their_latencies+=("$(perftest ib_write_lat "$size" 5)")
  done
  rate=$(printf '%s\n' "${ours[@]}" | best max) their_rate=$(printf '%s\n' "${theirs[@]}" | best max)
  latency=$(printf '%s\n' "${latencies[@]}" | best min) their_latency=$(printf '%s\n' "${their_latencies[@]}" | best min)
  ratio=$(awk -v a="$rate" -v b="$their_rate" 'BEGIN {if (b > 0) printf "%.2f", a / b; else print "-"}')
  printf '%10d | %12s %12s | %10s %12s %6s | %9s\n' "$size" "$latency" "$their_latency" "$rate" "$their_rate" "$ratio" "$cpu"
done
