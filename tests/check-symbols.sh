#!/bin/sh
# TAP: the libraries show what their headers declare, and nothing else; and the check can fail.
echo 1..2
if out=$("$SRCDIR/tools/check-symbols" "$BUILDDIR"); then echo "ok 1 - libraries show what their headers declare"; else
  echo "not ok 1 - libraries show what their headers declare"; echo "$out" | sed 's/^/# /'; fi

# A function that is declared only, in a copy of the headers.
folder=$(mktemp -d)
mkdir "$folder/docs" "$folder/tools"
cp -R "$SRCDIR/include" "$folder/include"
chmod -R u+w "$folder"
cp "$SRCDIR/docs/api.md" "$folder/docs"
cp "$SRCDIR/tools/check-symbols" "$folder/tools"
echo 'HD_API int hd_missing(void);' >>"$folder/include/heddle/status.h"
build=$(cd "$BUILDDIR" && pwd)
if "$folder/tools/check-symbols" "$build" >"$folder/out" || ! grep -q hd_missing "$folder/out" ||
  ! grep -q 'expected Core: heddle/status.h ' "$folder/out"; then
  echo "not ok 2 - a function that no library has is found"
else
  echo "ok 2 - a function that no library has is found"
fi
sed 's/^/# /' "$folder/out"
rm -rf "$folder"
