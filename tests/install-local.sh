#!/bin/sh
# TAP: after `make install` by root into /usr/local the command starts, and so does a program that pkg-config links: the
# linker's cache knows the libraries. In a mount namespace, where writing to /usr/local and
# /etc changes nothing of the machine.
if [ "${1-}" = inside ]; then
  . "$SRCDIR/tests/tap.sh"
  check() {
    name=$1
    shift
    said=$("$@" 2>&1)
    result $? "$name" "$said"
  }
  scratch=$2
  # overlay FOLDER: what is written to it from here on goes elsewhere.
  overlay() {
    mkdir "$scratch/over" && mount -t tmpfs none "$scratch/over" && mkdir "$scratch/over/upper" "$scratch/over/work" &&
      mount -t overlay -o "lowerdir=$1,upperdir=$scratch/over/upper,workdir=$scratch/over/work" none "$1"
  }
  mount --make-rprivate / && overlay /usr/local && cp -a /etc "$scratch" && mount --bind "$scratch/etc" /etc || {
    echo "1..0 # SKIP the folders of this machine cannot be overlaid"
    exit
  }
  [ ! -d /var/cache/ldconfig ] || mount -t tmpfs none /var/cache/ldconfig
  rm -f /usr/local/lib/libheddle* && ldconfig
  check "make install" env -u MAKEFLAGS -u MAKELEVEL make -s -C "$BUILDDIR" install
  check "the command starts" /usr/local/bin/heddle --version
  printf '%s\n' '#include <heddle.h>' 'int main(void) { return !hd_version()[0]; }' >"$scratch/program.c"
  check "a program compiles" sh -c 'cc "$0.c" -o "$0" $(pkg-config --cflags --libs heddle)' "$scratch/program"
  check "and starts" "$scratch/program"
  echo "1..$count"
  exit
fi
missing() {
  echo "1..0 # SKIP $1"
  exit 0
}
[ "$(id -u)" = 0 ] || missing "only root installs into /usr/local"
unshare -m mount --make-rprivate / 2>/dev/null || missing "no mount namespace can be had here"
for tool in cc pkg-config make ldconfig; do
  command -v $tool >/dev/null || missing "$tool is not installed"
done
grep -qx 'prefix = /usr/local' "$BUILDDIR/Makefile" || missing "this build is not for /usr/local"
nm -D "$BUILDDIR/.libs/libheddle.so" 2>/dev/null | grep -q ' hd_version' || missing "this build has no shared library"
nm -D "$BUILDDIR/.libs/libheddle.so" | grep -q __asan && missing "a library with sanitizers needs their flags"
unset LD_LIBRARY_PATH
scratch=$(mktemp -d "${TMPDIR:-/tmp}/heddle-install.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
unshare -m sh "$0" inside "$scratch"
