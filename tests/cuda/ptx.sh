#!/bin/sh
# TAP: what nvcc made of the GPU's kernels: every operation of floats is rounded to nearest and takes denormals for
# zeros, as threads of the CPU compute; none is contracted, approximate or atomic.
ptx=$BUILDDIR/cuda_kernels.ptx
[ -f "$ptx" ] || { echo "1..0 # SKIP this build has no nvcc"; exit 0; }
echo 1..4
count=0

# never TITLE PATTERN [BUT]: no line has PATTERN, or it has BUT.
never() {
  count=$((count + 1))
  if grep -E "$2" "$ptx" | grep -Ev "${3:-^$}" >bad; then echo "not ok $count - $1"; head -n 5 bad | sed 's/^/# /'
  else echo "ok $count - $1"; fi
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-ptx.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
[ "$(grep -cE '\.entry hdk_' "$ptx")" -gt 40 ] || { echo "Bail out! no kernels in $ptx"; exit 1; }
never "floats are rounded to nearest and flushed" '[[:space:]](fma|mad|add|sub|mul|div|rcp|sqrt)[a-z.]*\.f32' \
  '\.rn\.ftz\.f32'
never "doubles are rounded to nearest" '[[:space:]](fma|mad|add|sub|mul|div|rcp|sqrt)[a-z.]*\.f64' '\.rn\.f64'
never "nothing is approximate" '\.(approx|full)[. ]|[[:space:]](ex2|lg2|sin|cos|tanh|rsqrt)\.'
never "nothing is atomic" '[[:space:]](atom|red)\.'
