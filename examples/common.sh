# Shell functions that the run scripts of the examples share; bash, to be sourced under `set -euo pipefail`.
# The scripts set `example`, their name, and then work from the root of the repository, so that the paths in their
# prototxt files hold.
# shellcheck shell=bash

: "${example:?}"
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
bin=build/release/bin

say() { echo "$example: $*"; }

fail() {
  echo "$example: $*" >&2
  exit 1
}

# Installs what is missing and builds these programs: build_programs hpnode model_test ...
build_programs() {
  tools/dev/setup.sh
  say "building $* in build/release"
  tools/dev/build.sh release "$@"
}

# First of `count` successive TCP ports that are free now: free_ports 4
free_ports() {
  python3 - "$1" <<'PYTHON'
import random, socket, sys

count = int(sys.argv[1])
for attempt in range(1000):
    first = random.randrange(20000, 32000)  # below the kernel's own ephemeral ports
    sockets = [socket.socket() for _ in range(count)]
    try:
        for i, s in enumerate(sockets):
            s.bind(("127.0.0.1", first + i))
        print(first)
        break
    except OSError:
        continue
    finally:
        for s in sockets:
            s.close()
else:
    sys.exit("no free ports")
PYTHON
}

# The nodes of a table as hproute writes it, a line "NAME ROLE" each.
table_nodes() {
  awk '/^(stage|node) *[{]/ { block = $1; name = ""; stage = 0; kind = "conv" }
       $1 == "kind:" && $2 == "FC" { kind = "fc" }
       $1 == "name:" { name = $2; gsub(/"/, "", name) }
       $1 == "stage:" { stage = $2 }
       /^}/ { if (block == "stage") kinds[stages++] = kind; else if (block == "node") print name, kinds[stage] }' "$1"
}

declare -A node_names=() # by process id, of the nodes that run
declare -A node_ends=()  # exit status by name, of the nodes that have ended
follower='' sentinel=''
starting='' interrupted_at_start=''

# Ends what still runs, politely first. A second signal must not cut this short: nodes would be left over.
stop_nodes() {
  local pids=("${!node_names[@]}") i
  trap '' INT TERM
  stop_following
  [[ ${#pids[@]} -gt 0 ]] || return 0
  kill "${pids[@]}" 2>/dev/null || true
  for ((i = 0; i < 50; i++)); do
    kill -0 "${pids[@]}" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
}

interrupted() {
  if [[ -n $starting ]]; then # what is being forked has no id yet, so nothing would stop it
    interrupted_at_start=1
    return
  fi
  trap '' INT TERM
  echo
  say "interrupted, stopping the nodes" >&2
  exit 130
}

# Starts a node for each line "NAME ROLE" of standard input, by a command that gets NAME and ROLE and becomes the node:
# start_nodes WORK_FOLDER COMMAND ... Their logs are work/NAME.log. Shows their progress.
start_nodes() {
  local work=$1 name role
  shift
  trap stop_nodes EXIT
  starting=1
  trap interrupted INT TERM
  while read -r name role; do
    : >"$work/$name.log" # here and not by the node, so that follow_logs finds it
    "$@" "$name" "$role" >>"$work/$name.log" 2>&1 </dev/null &
    node_names[$!]=$name
  done
  follow_logs "$work"
  starting=
  [[ -z $interrupted_at_start ]] || interrupted
}

# Shows Caffe's progress lines, which one of the nodes logs, until stop_following.
follow_logs() {
  local work=$1
  sleep infinity & # tail ends with this one, after it has read everything
  sentinel=$!
  tail -q -n +1 -s 0.2 --pid=$sentinel -F "$work"/*.log 2>/dev/null |
    sed -un 's/^[^]]*\] *\(Iteration .*loss = .*\)/  \1/p; s/^[^]]*\] *\(Test net output #.*\)/    \1/p' &
  follower=$!
}

stop_following() {
  [[ -n $follower ]] || return 0
  kill $sentinel 2>/dev/null || true
  wait $sentinel $follower 2>/dev/null || true
  follower=
}

# What went wrong, from the nodes themselves: report_failure WORK_FOLDER NAME ...
report_failure() {
  local work=$1 name
  shift
  echo "$example: training failed" >&2
  for name in "$@"; do
    echo "--- $name: exit status ${node_ends[$name]:-unknown, it had to be killed}; the end of $work/$name.log:" >&2
    tail -n 8 "$work/$name.log" >&2
  done
}

# Sets `ended` to the id of a node that has ended; false: the deadline, in seconds of the shell's clock, has passed.
# Not by `wait -n`, which forgets a node that ends in the same moment as another.
find_ended() {
  while [[ -z $1 ]] || ((SECONDS < $1)); do
    for ended in "${!node_names[@]}"; do
      kill -0 "$ended" 2>/dev/null || return 0
    done
    sleep 0.1
  done
  return 1
}

# Waits for all nodes. When one fails the others notice and end by themselves; who has not in 15 s is ended.
# The exit status is that of the first that failed.
wait_for_nodes() {
  local ended status worst=0 deadline=
  while [[ ${#node_names[@]} -gt 0 ]] && find_ended "$deadline"; do
    status=0
    wait "$ended" || status=$?
    node_ends[${node_names[$ended]}]=$status
    unset "node_names[$ended]"
    if [[ $status -ne 0 && $worst -eq 0 ]]; then
      worst=$status
      deadline=$((SECONDS + 15))
    fi
  done
  return "$worst"
}

# Trains to the end with nodes as start_nodes starts them: train_nodes WORK_FOLDER COMMAND ...
train_nodes() {
  local work=$1 status=0 start=$SECONDS nodes names
  nodes=$(cat)
  mapfile -t names < <(cut -d ' ' -f 1 <<<"$nodes")
  say "training with the nodes ${names[*]}; logs in $work/"
  start_nodes "$@" <<<"$nodes"
  wait_for_nodes "$work" || status=$?
  if [[ $status -ne 0 ]]; then
    stop_nodes
    report_failure "$work" "${names[@]}"
    exit "$status"
  fi
  stop_following
  say "trained in $((SECONDS - start)) s"
}

# Becomes a node of this host: local_node TABLE NAME ROLE
local_node() { exec "$bin/hpnode" --role="$3" --routing="$1" --node="$2"; }

# Trains with every node of the table on this host: train TABLE WORK_FOLDER
train() {
  local nodes
  nodes=$(table_nodes "$1")
  [[ -n $nodes ]] || fail "$1 names no nodes"
  train_nodes "$2" local_node "$1" <<<"$nodes"
}

# Tests the model on its TEST data: evaluate NET WEIGHTS ITERATIONS WORK_FOLDER
evaluate() {
  local net=$1 weights=$2 iterations=$3 work=$4 log=$4/model_test.log accuracy
  "$bin/model_test" --model="$net" --weights="$weights" --iterations="$iterations" >"$log" 2>&1 || {
    tail -n 8 "$log" >&2
    fail "model_test failed; its log is $log"
  }
  accuracy=$(sed -n 's/.*accuracy = \([0-9.e+-]*\).*/\1/p' "$log" | tail -n 1)
  [[ -n $accuracy ]] || fail "model_test printed no accuracy; its log is $log"
  say "test accuracy $(awk -v a="$accuracy" 'BEGIN { printf "%.2f%%", 100 * a }')"
  say "the model: $PWD/$weights"
}

# A number that a solver file sets: solver_value FILE max_iter
solver_value() { awk -v key="$2:" '$1 == key { print $2 }' "$1"; }
