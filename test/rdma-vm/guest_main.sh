#!/usr/bin/env bash
# What the guest does as its first process: two "hosts" on one wire, then the command. Each process started costs 0.1 s
# of an emulated machine, hence the batches.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
control=/run/control busybox=/run/busybox
echo rdma-vm >/proc/sys/kernel/hostname
ulimit -l unlimited
ulimit -n 65536

# Both ends are in one network namespace: software RDMA works in the initial one only.
ip -batch - <<'IP'
link set lo up
link add va address 02:00:00:00:00:01 mtu 9000 type veth peer name vb address 02:00:00:00:00:02 mtu 9000
IP
for device in all default va vb; do
  for setting in accept_local=1 rp_filter=0 arp_ignore=1; do
    echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/$device/${setting%=*}"
  done
  echo 1 >"/proc/sys/net/ipv6/conf/$device/disable_ipv6"
done
# Both addresses are local: the rules send what goes between them over the wire, instead of the short cut through lo.
ip -batch - <<'IP'
addr add 10.77.0.1/24 dev va
addr add 10.77.0.2/24 dev vb
link set va up
link set vb up
rule add pref 1 iif va lookup local
rule add pref 1 iif vb lookup local
rule add pref 2 from 10.77.0.1 to 10.77.0.1 lookup local
rule add pref 2 from 10.77.0.2 to 10.77.0.2 lookup local
rule add pref 10 to 10.77.0.2 lookup 101
rule add pref 10 to 10.77.0.1 lookup 102
rule add pref 100 lookup local
rule del pref 0 lookup local
route add 10.77.0.2 dev va src 10.77.0.1 table 101
route add 10.77.0.1 dev vb src 10.77.0.2 table 102
neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev va nud permanent
neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev vb nud permanent
IP
rdma -b - <<<$'link add rxe0 type rxe netdev va\nlink add rxe1 type rxe netdev vb'
# The same with IPv6, behind the devices: so its GIDs come behind those of IPv4.
for device in lo va vb; do
  [[ $device = lo ]] || echo 1 >"/proc/sys/net/ipv6/conf/$device/addr_gen_mode"  # no link-local address
  echo 0 >"/proc/sys/net/ipv6/conf/$device/disable_ipv6"
done
ip -6 -batch - <<'IP'
addr add fd00:77::1/64 dev va nodad
addr add fd00:77::2/64 dev vb nodad
rule add pref 1 iif va lookup local
rule add pref 1 iif vb lookup local
rule add pref 2 from fd00:77::1 to fd00:77::1 lookup local
rule add pref 2 from fd00:77::2 to fd00:77::2 lookup local
rule add pref 10 to fd00:77::2 lookup 101
rule add pref 10 to fd00:77::1 lookup 102
rule add pref 100 lookup local
rule del pref 0 lookup local
route add fd00:77::2 dev va src fd00:77::1 table 101
route add fd00:77::1 dev vb src fd00:77::2 table 102
neigh add fd00:77::2 lladdr 02:00:00:00:00:02 dev va nud permanent
neigh add fd00:77::1 lladdr 02:00:00:00:00:01 dev vb nud permanent
IP

for port in /sys/class/virtio-ports/*; do
  case $(<"$port/name") in
    out) out=/dev/${port##*/} ;;
    err) err=/dev/${port##*/} ;;
  esac
done
# shellcheck disable=SC1091
cd "$(<$control/directory)" && . $control/environment
: >$control/started
exec 3> >(exec $busybox cat >"$out")
out_pid=$!
exec 4> >(exec $busybox cat >"$err")
err_pid=$!
bash -c "$(<$control/command)" </dev/null >&3 2>&4 3>&- 4>&-
status=$?
exec 3>&- 4>&-
# A child that was left behind may hold them open.
(
  for _ in 1 2 3 4 5 6 7 8; do
    kill -0 $out_pid $err_pid 2>/dev/null || exit
    $busybox sleep 0.5
  done
  kill $out_pid $err_pid
) &
wait $out_pid $err_pid
echo $status >$control/status
$busybox poweroff -f  # this syncs
