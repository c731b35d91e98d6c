#!/bin/sh
# TAP: no retired word is left, and the check can fail.
echo 1..3
if out=$("$SRCDIR/tools/check-words" "$SRCDIR" 2>&1); then echo "ok 1 - no retired word in names and texts"; else
  echo "not ok 1 - no retired word in names and texts"; echo "$out" | sed 's/^/# /'; fi
folder=$(mktemp -d)
mkdir -p "$folder/src" "$folder/docs"
echo 'int hd__wait_for_hei''rs(void);' >"$folder/src/wait.h"
echo 'A thread waits.' >"$folder/docs/page.md"
if "$SRCDIR/tools/check-words" "$folder" >"$folder/out" 2>&1; then echo "not ok 2 - a word inside an identifier is found"
else echo "ok 2 - a word inside an identifier is found"; fi
if grep -q page.md "$folder/out"; then echo "not ok 3 - other lines are not"; else echo "ok 3 - other lines are not"; fi
rm -rf "$folder"
