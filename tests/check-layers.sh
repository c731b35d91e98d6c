#!/bin/sh
# TAP: the layers hold, and the check can fail.
echo 1..2
if out=$("$SRCDIR/tools/check-layers" "$SRCDIR"); then echo "ok 1 - every #include keeps to tools/layers.txt"; else
  echo "not ok 1 - every #include keeps to tools/layers.txt"; echo "$out" | sed 's/^/# /'; fi
folder=$(mktemp -d)
mkdir -p "$folder/src/tree" "$folder/tools" "$folder/bench" "$folder/examples"
cp "$SRCDIR/tools/layers.txt" "$folder/tools"
echo '#include "train/session.h"' > "$folder/src/tree/wrong.c"
if "$SRCDIR/tools/check-layers" "$folder" > /dev/null; then echo "not ok 2 - a wrong #include is found"
else echo "ok 2 - a wrong #include is found"; fi
rm -rf "$folder"
