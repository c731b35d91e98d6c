#!/bin/sh
# TAP: no figure of tools/house is above its bound, and the check can fail.
echo 1..2
if out=$("$SRCDIR/tools/house" "$SRCDIR" 2>&1); then echo "ok 1 - each figure is within its bound"; else
  echo "not ok 1 - each figure is within its bound"
fi
echo "$out" | sed 's/^/# /'
folder=$(mktemp -d)
mkdir -p "$folder/src" "$folder/include"
{
  echo 'void f(int a, int b, int c, int d, int e, int g, int h) {'
  seq 60 | sed 's/.*/  a++;/'
  echo '}'
} >"$folder/src/f.c"
if out=$("$SRCDIR/tools/house" "$folder" 2>/dev/null); then echo "not ok 2 - a function of 62 lines is found"; else
  if echo "$out" | grep -qx 'functions_longest 62 55' && echo "$out" | grep -q '^functions_of_seven_parameters 1 '; then
    echo "ok 2 - a function of 62 lines is found"
  else
    echo "not ok 2 - a function of 62 lines is found"
    echo "$out" | sed 's/^/# /'
  fi
fi
rm -rf "$folder"
