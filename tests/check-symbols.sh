#!/bin/sh
# TAP: the libraries show what their headers declare, and nothing else.
echo 1..1
if out=$("$SRCDIR/tools/check-symbols" "$BUILDDIR"); then echo "ok 1 - libraries show what their headers declare"; else
  echo "not ok 1 - libraries show what their headers declare"; echo "$out" | sed 's/^/# /'; fi
