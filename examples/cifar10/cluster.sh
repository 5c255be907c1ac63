#!/usr/bin/env bash
# What run.sh --cluster runs in namespaces of its own: hosts, a model server and Redis on the first of them, and the nodes
# on the others, started over ssh. usage: cluster.sh BIN WORK_FOLDER CONV_NODES FC_NODES SOLVER
set -euo pipefail
trap 'exit 130' INT TERM # the first process of its namespaces is not ended by a signal that it does not expect

example=cifar10
# shellcheck source=examples/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# shellcheck source=examples/cluster_hosts.sh
source examples/cluster_hosts.sh
bin=$1 work=$2 conv=$3 fc=$4 solver=$5
token=$work/token
plan=(--conv="$conv" --fc="$fc")

# One of these functions becomes a node, by ssh to its host: NODE HOST ROLE
node_of_server() { remote_node "$1" "$2" --routing=tcp://head:29400; }
node_of_redis() {
  remote_node "$1" "$2" --routing=redis://head:6379/cifar10 --solver="$PWD/$solver" "${plan[@]}" --resume=latest
}
remote_node() { ssh_to "$1" "$bin/hpnode" --role="$2" --token_file="$token" "${@:3}"; }

server_heard_all() { [[ $(grep -c "ended with status 0" "$work/server.log") -eq ${#hosts[@]} ]]; }

hosts=(a b c d e f g h i j k l m n o p)
[[ $((conv + fc)) -le ${#hosts[@]} ]] || fail "at most ${#hosts[@]} nodes"
hosts=("${hosts[@]:0:conv + fc}")
nodes=$(for i in "${!hosts[@]}"; do echo "${hosts[i]} $([[ $i -lt $conv ]] && echo conv || echo fc)"; done)
make_hosts head "${hosts[@]}"
for host in "${hosts[@]}"; do
  [[ $(ssh_to "$host" hostname) == "$host" ]] || fail "host $host does not answer as itself"
done
say "hosts ${hosts[*]} answer over ssh, at $hosts_network.2 to $hosts_network.$((${#hosts[@]} + 1))"
mkdir "$work/first" "$work/second" "$work/redis"
"$bin/hproute" --new_token="$token" >"$work/token.log"

half=$(($(solver_value "$solver" max_iter) / 2))
first_solver=$work/first/solver.prototxt
sed "s/^max_iter:.*/max_iter: $half/" "$solver" >"$first_solver"
"$bin/hpserver" --solver="$PWD/$first_solver" "${plan[@]}" --listen=head:29400 --folder="$work/server" \
  --token_file="$token" >"$work/server.log" 2>&1 &
server=$!
await $server "$work/server.log" grep -q "listens on" "$work/server.log"
say "the model server hands out the table of the first half, $half iterations"
train_nodes "$work/first" node_of_server <<<"$nodes"
await $server "$work/server.log" server_heard_all
kill $server
wait $server || true

redis-server --bind "$hosts_network.1" --port 6379 --protected-mode no --save '' --dir "$work/redis" \
  >"$work/redis.log" 2>&1 &
await $! "$work/redis.log" redis-cli -h head ping
say "the model server has gone; through Redis the nodes agree on a table, and go on from the snapshot"
node_ends=()
train_nodes "$work/second" node_of_redis <<<"$nodes"
grep -q "resuming at iteration $half" "$work/second/${hosts[0]}.log" ||
  fail "the second half did not go on from the first one's snapshot; its logs are in $work/second"
