#!/usr/bin/env bash
# The TCP transport beside ucx_perftest and iperf3 on loopback, size by size in one run: half round trip and bandwidth.
# usage: test/bench/transport_bench.sh [PATH/TO/transport_bench]   (default: build/release/bin/transport_bench)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bench=${1:-build/release/bin/transport_bench}
sizes=${SIZES:-"64 1024 4096 16384 65536 262144 1048576 4194304 16777216 67108864"}
repeats=${REPEATS:-3}
port=${PORT:-13399}

if [[ ! -x $bench ]]; then
  echo "no $bench: build the target transport_bench first" >&2
  exit 2
fi
for tool in ucx_perftest:ucx-utils iperf3:iperf3; do
  command -v "${tool%%:*}" >/dev/null || echo "${tool%%:*} is not installed (apt-get install ${tool##*:}): its columns stay empty"
done

# Both ends on cores of their own, as transport_bench has them.
pin() { if [[ $(nproc) -ge 2 ]]; then taskset -c "$@"; else shift && "$@"; fi; }
# best min|max: the least or greatest of the numbers on standard input.
best() { sort -g | if [[ $1 == min ]]; then head -1; else tail -1; fi; }

# ucx TEST SIZE COUNT COLUMN: one run of ucx_perftest over TCP on loopback; prints that column of its last line.
ucx() {
  local server
  UCX_TLS=tcp UCX_NET_DEVICES=lo pin 1 ucx_perftest -p "$port" >/dev/null 2>&1 &
  server=$!
  until [[ -n $(ss -Hltn "sport = :$port") ]]; do sleep 0.05; done
  UCX_TLS=tcp UCX_NET_DEVICES=lo pin 0 timeout 60 ucx_perftest 127.0.0.1 -p "$port" -t "$1" -s "$2" -n "$3" -w 10 -f 2>/dev/null |
    tail -1 | awk -v column="$4" '{print $column}'
  wait "$server" || true
}

# iperf SIZE: MB/s of iperf3 with writes of that size.
iperf() {
  local server
  pin 1 iperf3 -s -1 -p "$port" >/dev/null 2>&1 &
  server=$!
  until [[ -n $(ss -Hltn "sport = :$port") ]]; do sleep 0.05; done
  pin 0 iperf3 -c 127.0.0.1 -p "$port" -t 1 -l "$1" -J | awk -F'[:,]' '/"sum_received"/ {inside = 1}
    inside && /bits_per_second/ {printf "%.0f\n", $2 / 8e6; exit}'
  wait "$server" || true
}

repeat() { for ((i = 0; i < repeats; ++i)); do "$@"; done; }
# Messages of one run: about 200 MB, at most 5000.
count() { local n=$((200000000 / $1)); echo $((n > 5000 ? 5000 : n < 10 ? 10 : n)); }

echo "load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) cores"
printf '%10s %34s %34s %9s\n' '' '---------- half round trip/us' '------------- bandwidth MB/s' 'CPU s/GB'
printf '%10s %11s %11s %10s %11s %11s %10s %9s\n' bytes hpnode ucx ratio hpnode ucx iperf3 hpnode
for size in $sizes; do
  read -r _ latency rate cpu < <("$bench" --header=false --sizes="$size" --repeats="$repeats")
  ucx_latency=- ucx_rate=- iperf_rate=- ratio=-
  if command -v ucx_perftest >/dev/null; then
    ucx_latency=$(repeat ucx tag_lat "$size" "$(count "$size")" 2 | best min)
    # It counts in units of 2^20 bytes.
    ucx_rate=$(repeat ucx tag_bw "$size" "$(count "$size")" 6 | best max | awk '{printf "%.0f", $1 * 1.048576}')
    ratio=$(awk -v a="$latency" -v b="$ucx_latency" 'BEGIN {printf "%.2f", a / b}')
  fi
  if command -v iperf3 >/dev/null && ((size <= 1048576)); then iperf_rate=$(iperf "$size"); fi
  printf '%10s %11s %11s %10s %11s %11s %10s %9s\n' "$size" "$latency" "$ucx_latency" "$ratio" "$rate" "$ucx_rate" \
    "$iperf_rate" "$cpu"
done
"$bench" --idle_s=4
echo "load of the machine after: $(cut -d' ' -f1-3 /proc/loadavg)"
