#!/usr/bin/env bash
# Installs those Debian packages of tools/dev/packages*.txt that this machine lacks. Safe to run again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: tools/dev/setup.sh [--dev] [--bench] [--glyphs]

Installs the Debian packages that are missing on this machine, as root or through sudo:
  (always)  what building, testing and the examples need   tools/dev/packages.txt
  --dev     what .ci/run needs on top of it                tools/dev/packages-dev.txt
  --bench   what test/bench compares with                  tools/dev/packages-bench.txt
  --glyphs  fonts, and what examples/glyphs renders with   tools/dev/packages-glyphs.txt
TEXT
}

fail() {
  echo "setup: $*" >&2
  exit 1
}

lists=("$here/packages.txt")
for arg in "$@"; do
  case $arg in
    --dev) lists+=("$here/packages-dev.txt") ;;
    --bench) lists+=("$here/packages-bench.txt") ;;
    --glyphs) lists+=("$here/packages-glyphs.txt") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

# One package a line, with a comment that says why.
wanted() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "${lists[@]}" | sort -u; }

installed() {
  # Packages dpkg has never heard of make it exit 1; they are simply not among its answers.
  # shellcheck disable=SC2016  # the format's variables are dpkg's
  wanted | xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | sort -u || true
}

missing() { comm -23 <(wanted) <(installed); }

# Runs a command as root; apt must not ask questions, and another apt may be busy.
as_root() {
  local prefix=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "needs root to install packages, and there is no sudo; run as root: apt-get install ${packages[*]}"
    prefix=(sudo)
    [[ -t 0 ]] || prefix+=(-n) # nobody there to type a password
  fi
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "needs a Debian system (dpkg, apt-get); elsewhere install by hand what these name: ${lists[*]}"
fi

mapfile -t packages < <(missing)
if [[ ${#packages[@]} -eq 0 ]]; then
  echo "setup: all $(wanted | wc -l) packages are installed"
  exit 0
fi

echo "setup: installing ${#packages[@]} Debian packages: ${packages[*]}"
as_root apt-get -q -o DPkg::Lock::Timeout=300 update ||
  echo "setup: apt-get update failed (above); continuing with the existing package lists" >&2
as_root apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 install "${packages[@]}" ||
  fail "apt-get could not install: ${packages[*]} (see its output above; without root rights, run this once as root)"

mapfile -t packages < <(missing)
[[ ${#packages[@]} -eq 0 ]] || fail "still missing after the installation: ${packages[*]}"
echo "setup: done"
