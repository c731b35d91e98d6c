#!/bin/sh
# TAP: what a user gets: `make install` into an empty folder, then the examples compiled by pkg-config's flags alone,
# and every public header by itself, as C11 and as C++, without a warning; and `make uninstall`.
samples="64 16"
. "$SRCDIR/tests/examples_lib.sh"
missing() {
  echo "1..0 # SKIP $1"
  exit 0
}
for tool in cc pkg-config make; do
  command -v $tool >/dev/null || missing "$tool is not installed"
done
[ -f "$BUILDDIR/.libs/libheddle.so" ] || missing "this build has no shared library"
nm -D "$BUILDDIR/.libs/libheddle.so" | grep -q __asan && missing "a library with sanitizers needs their flags"

root=$PWD/root
env -u MAKEFLAGS -u MAKELEVEL make -s -C "$BUILDDIR" install DESTDIR="$root" >install.out 2>&1
result $? "make install DESTDIR=..." "$(cat install.out)"
config=$(find "$root" -name heddle.pc)
prefix=$root$(sed -n 's/^prefix=//p' "$config")
flags_of() { # MODULE OPTION...
  module=$1
  shift
  PKG_CONFIG_PATH=${config%/*} pkg-config --define-variable=prefix="$prefix" "$@" "$module"
}
flags() { flags_of heddle "$@"; }
check "pkg-config knows heddle" flags --exists
check "and heddle-tools" flags_of heddle-tools --exists
LD_LIBRARY_PATH=$(flags --variable=libdir)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
strict="-Wall -Wextra -pedantic -Werror"

for source in "$SRCDIR"/examples/*.c; do
  name=${source##*/}
  check "$name compiles by pkg-config's flags" cc -std=c11 $strict "$source" -o "${name%.c}" $(flags --cflags --libs)
done
check "train_cnn runs with the installed library" ./train_cnn data 2
check "the installed command names its version" test \
  "$("$prefix/bin/heddle" --version | head -n 1)" = "heddle $(flags --modversion)"

cat >look.c <<'END'
#include <heddle.h>
#include <heddle/tools.h>

int main(void) {
  hd_ctx *ctx = NULL;
  hd_monitor *monitor = NULL;
  const hd_look *look = NULL;
  int failed = hd_ctx_create(&ctx) || hd_monitor_create(&monitor, ctx) || hd_monitor_look(&look, monitor, ctx);
  failed = failed || look->machine->cpus < 1;
  hd_monitor_destroy(monitor);
  hd_ctx_destroy(ctx);
  return failed;
}
END
check "a program with heddle/tools.h compiles by pkg-config's flags" cc -std=c11 $strict look.c -o look \
  $(flags_of heddle-tools --cflags --libs)
check "and runs" ./look

# Not by `--static --libs` alone: those of libraries that this machine has for running programs only are not here.
archive=$(flags --variable=libdir)/libheddle.a
link_static() { # PROGRAM SOURCE ARCHIVE...
  program=$1
  shift
  $(sed -n 's/^CC = //p' "$BUILDDIR/Makefile") -o "$program" $(flags --cflags) "$@" \
    $(pkg-config --libs $(flags --print-requires-private)) \
    $(flags_of heddle-tools --static --libs | tr ' ' '\n' | grep -v '^-[Ll]') -lpthread -lm
}
if [ -f "$archive" ]; then
  check "train_cnn.c links with the archive and the modules that heddle.pc requires" \
    link_static train_static "$SRCDIR/examples/train_cnn.c" "$archive"
  check "look.c links with both archives" link_static look_static look.c "${archive%.a}-tools.a" "$archive"
  check "and runs" env -u LD_LIBRARY_PATH ./look_static
else
  check "pkg-config needs no files of other libraries" env PKG_CONFIG_LIBDIR=nowhere PKG_CONFIG_PATH="${config%/*}" \
    pkg-config --cflags --libs heddle
fi

compile() { # COMPILER STANDARD FILE
  "$1" -std="$2" $strict -c "$3" -o header.o $(flags --cflags)
}
for header in "$prefix"/include/heddle.h "$prefix"/include/heddle/*.h; do
  name=${header#"$prefix/include/"}
  printf '#include <%s>\n#include <%s>\ntypedef int not_empty;\n' "$name" "$name" | tee header.c >header.cc
  check "$name compiles alone, as C11" compile cc c11 header.c
  if command -v c++ >/dev/null; then
    check "$name compiles alone, as C++" compile c++ c++11 header.cc
  else
    result skip "$name: there is no C++ compiler"
  fi
done
check "every public header is installed" test \
  "$(cd "$SRCDIR/include" && find . -name '*.h' | sort)" = "$(cd "$prefix/include" && find . -name '*.h' | sort)"

printf '%s\n' '#include <heddle.h>' 'int main() { return hd_version()[0] ? 0 : 1; }' >link.cc
if command -v c++ >/dev/null; then
  check "a C++ program links" c++ -std=c++11 $strict link.cc -o link $(flags --cflags --libs)
  check "and runs" ./link
fi

env -u MAKEFLAGS -u MAKELEVEL make -s -C "$BUILDDIR" uninstall DESTDIR="$root" >uninstall.out 2>&1
result $? "make uninstall" "$(cat uninstall.out)"
check "it leaves nothing behind, nor a folder of heddle" test \
  -z "$(find "$root" ! -type d; find "$root" -type d -name '*heddle*')"
echo "1..$count"
