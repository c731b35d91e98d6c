#!/bin/sh
# TAP: the libraries show hd_ names alone.
echo 1..1
if out=$("$SRCDIR/tools/check-symbols" "$BUILDDIR"); then echo "ok 1 - libraries show hd_ symbols alone"; else
  echo "not ok 1 - libraries show hd_ symbols alone"; echo "$out" | sed 's/^/# /'; fi
