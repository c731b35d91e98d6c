#!/bin/sh
# TAP: the example of tensors prints what stands in examples/tensors.txt.
echo 1..2
out=$(mktemp)
n=0
check() { # NAME VARIABLE=VALUE
  n=$((n + 1))
  if env "$2" "$BUILDDIR/examples/tensors" >"$out" 2>&1 && cmp -s "$out" "$SRCDIR/examples/tensors.txt"; then
    echo "ok $n - $1"
  else
    echo "not ok $n - $1"
    diff "$out" "$SRCDIR/examples/tensors.txt" | sed 's/^/# /'
  fi
}
check "as committed" HEDDLE_ISA=
check "with the reference's kernels" HEDDLE_ISA=reference
rm -f "$out"
