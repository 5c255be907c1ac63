#!/usr/bin/env bash
# Packs the programs of a build, with the shared libraries that they need, into a tarball that runs wherever it is unpacked.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/dev/bundle.sh BUILD_FOLDER [--add=PROGRAM,...] [--no_cuda] [OUT_FOLDER]     e.g. tools/dev/bundle.sh build/portable

Writes OUT_FOLDER/hpnode-VERSION-ARCH.tar.gz (OUT_FOLDER: the build folder) and prints its path. In it are the programs
that `cmake --install` installs, their pages of the manual, completion, README, and a text with versions and licences.
Build first: tools/dev/build.sh portable -DHP_MARCH=x86-64-v3 hp_package

  --add=PROGRAM,...  further programs of BUILD_FOLDER/bin, such as gpu_ops or train_speed
  --no_cuda          without CUDA's libraries, of more than 1 GB: for hosts that have them, such as PyTorch's; there
                     LD_LIBRARY_PATH says where they are

A host needs Linux and a glibc at least as new as the one that the text names. The host's are: glibc, libibverbs and
librdmacm (without them there is no RDMA), and NVIDIA's driver. The CUDA libraries of a build with CUDA are in the bundle.
TEXT
}

die() {
  echo "bundle: $*" >&2
  exit 2
}

added=() arguments=() cuda=1
for argument in "$@"; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    --no_cuda) cuda='' ;;
    --add=*) IFS=, read -ra added <<<"${argument#--add=}" ;;
    -*) usage >&2 && exit 2 ;;
    *) arguments+=("$argument") ;;
  esac
done
[[ ${#arguments[@]} -eq 1 || ${#arguments[@]} -eq 2 ]] || { usage >&2 && exit 2; }
build=$(realpath "${arguments[0]}") out=$(realpath -m "${arguments[1]:-${arguments[0]}}")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
[[ -f $build/CMakeCache.txt ]] || die "$build is no build folder (tools/dev/build.sh makes one)"
command -v patchelf >/dev/null || die "needs patchelf (tools/dev/setup.sh installs it)"
for program in "${added[@]}"; do
  [[ -x $build/bin/$program ]] || die "no program $program in $build/bin"
done

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

version=$(cached CMAKE_PROJECT_VERSION) name=hpnode-$version-$(uname -m)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
root=$here/$name docs=$here/$name/share/doc/hpnode
unset LD_LIBRARY_PATH LD_PRELOAD # they would change what ldd finds

# --- Programs and documents

cmake --install "$build" --prefix "$here/installed" >"$here/log" 2>&1 ||
  { cat "$here/log" >&2 && die "not all is built: cmake --build $build --target hp_package"; }
mkdir -p "$root/lib" "$out"
mv "$here/installed/bin" "$here/installed/share" "$root"
for program in "${added[@]}"; do cp "$build/bin/$program" "$root/bin"; done

# --- Libraries: all that the loader would load, but for those of the host

host_owns='^(ld-linux.*|libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil|libanl|libnsl|libnss_.*)\.so|'
host_owns+='^(libibverbs|librdmacm|libcuda|libnvidia-.*)\.so|^linux-vdso'
[[ $cuda ]] || host_owns+='|^lib(cudart|cublas|cublasLt|cudnn.*|nccl|nvrtc.*|nvJitLink|nvjpeg)\.so'

# Lines "NAME PATH" of what the given files need.
needed() {
  local file name path
  for file; do ldd "$file"; done | sed -nE 's/^\s*(\S+) => (not found|\S+).*/\1 \2/p' | sort -u | while read -r name path; do
    [[ $name =~ $host_owns ]] && continue
    [[ $path != not ]] || die "$name, which a program needs, is not on this host"
    echo "$name $path"
  done
}

# What is loaded when a GPU is used: cuBLASLt, which the build found, the parts of cuDNN, which lie beside it, and NVRTC,
# which lies where CUDA's libraries do. Those that the programs name say where that is, and cuBLASLt; the runtime may be
# linked statically.
loaded_later() {
  [[ $cuda ]] || return 0
  local cudnn cublas path folders=()
  cudnn=$(sed -n 's/^libcudnn\.so\S* //p' "$here/libraries")
  [[ $cudnn ]] || return 0
  find "$(dirname "$cudnn")/" -maxdepth 1 -name "libcudnn_*.so.${cudnn##*.so.}"
  cublas=$(cached CUDA_cublasLt_LIBRARY)
  [[ -z $cublas ]] || realpath "$cublas"
  while read -r path; do
    folders+=("$(dirname "$path")/" "$(dirname "$(realpath "$path")")/")
  done < <(sed -nE 's/^lib(cudnn|cudart|cublas|cublasLt)\.so\S* //p' "$here/libraries" && echo "$cublas" | sed '/^$/d')
  find -L "${folders[@]}" -maxdepth 1 '(' -name 'libnvrtc.so.*' -o -name 'libnvrtc-builtins.so.*' ')'
}

# From the build's own folder, whose programs know where the CUDA libraries of this host are.
# Of the programs, those that are no scripts.
mapfile -t binaries < <(LC_ALL=C find "$root/bin" -type f -exec grep -q '^.ELF' {} ';' -print)
programs=("${binaries[@]/#"$root"/$build}")
needed "${programs[@]}" >"$here/libraries"
mapfile -t later < <(loaded_later)
for path in ${later[@]+"${later[@]}"}; do
  soname=$(patchelf --print-soname "$path")
  echo "$soname $path"
  needed "$path"
done >"$here/later"
sort -u -k1,1 "$here/libraries" "$here/later" | while read -r soname path; do cp -L "$path" "$root/lib/$soname"; done
chmod 755 "$root"/lib/* "$root"/bin/*
# NVIDIA's libraries stay as they are, as its licence asks; they look beside themselves, or where their program does.
mapfile -t ours < <(find "$root/lib" -type f | grep -vE '/lib(cud|cublas|curand|nv|nccl)[^/]*$')
strip --strip-unneeded "${ours[@]}" "${binaries[@]}"
# An RPATH and no RUNPATH: LD_LIBRARY_PATH, which clusters set for other programs, must not replace these libraries.
for program in "${binaries[@]}"; do patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$program"; done
for library in "${ours[@]}"; do patchelf --force-rpath --set-rpath "\$ORIGIN" "$library"; done

# --- What it is

# The Debian package of a file, under either of the names that a merged /usr gives it; empty: none.
package_of() {
  local path=$1
  { dpkg-query -S "$path" "${path#/usr}" "/usr$path" "$(realpath "$path")" 2>/dev/null || true; } | sed -n '1s/:.*//p'
}

mkdir -p "$docs/licences"
glibc=$(objdump -T "${binaries[@]}" "$root"/lib/* 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
march=$(cached HP_MARCH)
{
  echo "hpnode $version, commit $(git -C "$source" describe --always --dirty 2>/dev/null || echo unknown)"
  echo "build: $(cached CMAKE_BUILD_TYPE), -march=${march:-x86-64}, $(cached CMAKE_CXX_COMPILER)"
  echo "needs: Linux on $(uname -m), glibc ${glibc#GLIBC_} or later"
  echo
  echo "Libraries in lib/ and the Debian packages that they are from; licences/ has each package's copyright file."
  sort -u -k1,1 "$here/libraries" "$here/later" | while read -r soname path; do
    package=$(package_of "$path")
    echo "$soname ${package:-(of no package: $path)} $([[ -z $package ]] || dpkg-query -W -f '${Version}' "$package" | head -1)"
    [[ ! -f /usr/share/doc/$package/copyright ]] || cp -L "/usr/share/doc/$package/copyright" "$docs/licences/$package"
  done
} >"$docs/VERSION"
[[ $march != native ]] ||
  echo "bundle: built with -march=native: other processors may not run it; -DHP_MARCH=x86-64-v3 is for all of the last ten years" >&2

# NVIDIA's libraries have more than 1 GB, of which a higher level takes off little in many minutes.
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$here" -I 'gzip -1' -cf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"
