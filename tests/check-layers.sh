#!/bin/sh
# TAP: the layers hold, and the checks can fail.
echo 1..8
if out=$("$SRCDIR/tools/check-layers" "$SRCDIR"); then echo "ok 1 - includes keep to tools/layers.txt, without circles of headers; names of files are unique"; else
  echo "not ok 1 - includes keep to tools/layers.txt, without circles of headers; names of files are unique"
  echo "$out" | sed 's/^/# /'; fi
folder=$(mktemp -d)

# finds NUMBER WHAT: the check finds what stands in src, which is empty afterwards.
finds() {
  if "$SRCDIR/tools/check-layers" "$folder" >"$folder/out"; then echo "not ok $1 - $2 is found"; else echo "ok $1 - $2 is found"; fi
  sed 's/^/# /' "$folder/out"
  rm -rf "$folder/src"
  mkdir -p "$folder/src/base" "$folder/src/reduce"
}
mkdir -p "$folder/src/base" "$folder/src/reduce" "$folder/tools" "$folder/bench" "$folder/examples"
cp "$SRCDIR/tools/layers.txt" "$folder/tools"
echo '#include "train/session/session.h"' >"$folder/src/reduce/wrong.c"
finds 2 'a wrong #include'
echo '#include "base/second.h"' >"$folder/src/base/first.h"
echo '#include "base/first.h"' >"$folder/src/base/second.h"
finds 3 'a circle of headers'
echo '#include "base/first.h"' | tee "$folder/src/base/same.c" >"$folder/src/reduce/same.c"
finds 4 'a name that two files share'

if out=$("$SRCDIR/tools/check-calls" "$BUILDDIR"); then echo "ok 5 - files of a folder, and folders, call in one direction"; else
  echo "not ok 5 - files of a folder, and folders, call in one direction"
  echo "$out" | sed 's/^/# /'; fi

# calls NUMBER WANTED WHAT: what the check prints for the symbols on standard input has the line WANTED.
calls() {
  if "$SRCDIR/tools/check-calls" - >"$folder/out"; then found=none; else found=$(cat "$folder/out"); fi
  if echo "$found" | grep -qx -- "$2"; then echo "ok $1 - $3"; else echo "not ok $1 - $3"; fi
  echo "$found" | sed 's/^/# /'
}
calls 6 '  base/second.c calls one of base/first.c' 'a circle of files is found' <<'END'
src/base/libheddlecore_la-first.o: one T 0 1
src/base/libheddlecore_la-first.o: two U
src/base/.libs/second.o: two T 0 1
src/base/.libs/second.o: one U
END
calls 7 '  reduce/third.c calls one of base/first.c' 'a circle of folders is found' <<'END'
src/base/first.o: one T 0 1
src/base/first.o: three U
src/reduce/third.o: three T 0 1
src/reduce/third.o: one U
END
calls 8 none 'calls in one direction are none' <<'END'
src/base/first.o: one T 0 1
src/base/first.o: printf U
src/base/second.o: two T 0 1
src/base/second.o: one U
src/reduce/third.o: two U
END
rm -rf "$folder"
