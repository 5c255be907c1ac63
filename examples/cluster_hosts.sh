# Shell functions that make hosts on this machine: network namespaces on a switch, each with a name, an address and an
# sshd. To be sourced, in network, mount and process namespaces of the script's own (in_own_namespaces starts it so): then
# nothing of it is seen outside, and all of it is gone with the script, however that ends.
# shellcheck shell=bash

hosts_network=10.213.10
hosts_folder=/run/hosts # a file system in memory that only these namespaces see

# Debian packages of commands that hosts need and this machine lacks.
packages_for_hosts() {
  local command package
  while read -r command package; do
    [[ -n $(PATH=$PATH:/usr/sbin:/sbin type -P "$command") ]] || echo "$package"
  done <<'LIST' | sort -u
sshd openssh-server
ssh openssh-client
ssh-keygen openssh-client
ip iproute2
unshare util-linux
setpriv util-linux
nsenter util-linux
LIST
}

# Becomes a command in namespaces of its own. The kernel ends all that runs in them when the calling shell ends, by
# SIGKILL too.
in_own_namespaces() {
  exec setpriv --pdeathsig KILL unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$@"
}

on_host() { nsenter --net="/run/netns/$1" "${@:2}"; } # not ip netns exec, which hides /sys/fs/cgroup

# Puts the link eth0 of a network namespace ($1; empty: this one) on the switch, with the N-th ($2) address.
join_switch() {
  local host=$1 number=$2
  ip -n switch link add "port$number" type veth peer name eth0 netns "${host:-1}"
  ip -n switch link set "port$number" master bridge0 up
  ip ${host:+-n "$host"} address add "$hosts_network.$number/24" dev eth0
  ip ${host:+-n "$host"} link set eth0 up
  ip ${host:+-n "$host"} link set lo up
}

# One key for all hosts and one for the user, and what sshd and ssh have to know of them.
write_ssh_files() {
  local key
  for key in host_key user_key; do
    ssh-keygen -q -t ed25519 -N '' -f "$hosts_folder/$key"
  done
  sed "s/^/* /" "$hosts_folder/host_key.pub" >"$hosts_folder/known_hosts"
  cat >"$hosts_folder/ssh_config" <<CONFIG
Host *
  IdentityFile $hosts_folder/user_key
  IdentitiesOnly yes
  UserKnownHostsFile $hosts_folder/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
CONFIG
  cat >"$hosts_folder/sshd_config" <<CONFIG
HostKey $hosts_folder/host_key
AuthorizedKeysFile $hosts_folder/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
CONFIG
}

# Makes this namespace the first host and others beside it: make_hosts FIRST OTHER ... The others have an sshd each.
make_hosts() {
  local number=1 host
  mount -t tmpfs -o mode=755 hosts /run
  mkdir /run/netns /run/sshd "$hosts_folder"
  ip netns add switch
  ip -n switch link add bridge0 type bridge
  ip -n switch link set bridge0 up
  write_ssh_files
  echo "127.0.0.1 localhost" >"$hosts_folder/hosts"
  for host in "$@"; do
    echo "$hosts_network.$number $host" >>"$hosts_folder/hosts"
    if [[ $number -gt 1 ]]; then
      ip netns add "$host"
      join_switch "$host" $number
    else
      hostname "$host"
      join_switch '' $number
    fi
    number=$((number + 1))
  done
  mount --bind "$hosts_folder/hosts" /etc/hosts
  for host in "${@:2}"; do
    # shellcheck disable=SC2016 # the new shell's arguments
    on_host "$host" unshare --uts sh -c 'hostname "$1" && exec "$2" -D -e -f "$3"' - "$host" \
      "$(PATH=$PATH:/usr/sbin:/sbin type -P sshd)" "$hosts_folder/sshd_config" 2>"$hosts_folder/sshd_$host.log" &
    await $! "$hosts_folder/sshd_$host.log" grep -q "listening on" "$hosts_folder/sshd_$host.log"
  done
}

# Waits until a command succeeds, which shows that a server answers: await PROCESS LOG COMMAND ...
await() {
  local process=$1 log=$2 i
  for ((i = 0; i < 300; i++)); do
    "${@:3}" >/dev/null 2>&1 && return
    kill -0 "$process" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 8 "$log" >&2
  fail "it has ended or does not answer: ${*:3}"
}

# Becomes a command on a host, in this folder: ssh_to HOST COMMAND ...
ssh_to() { exec ssh -F "$hosts_folder/ssh_config" "$1" "cd $(printf %q "$PWD") && exec $(printf '%q ' "${@:2}")"; }
