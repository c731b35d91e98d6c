#!/bin/sh
# TAP: the layers hold, and the check can fail.
echo 1..4
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
rm -rf "$folder"
