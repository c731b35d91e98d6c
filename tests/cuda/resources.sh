#!/bin/sh
# TAP: the resources of the GPU's block kernels, from the assembler, for each architecture of this build: no register is
# spilled, and two blocks of each fit on a multiprocessor; on one of Turing's, of the largest, one.
resources=$BUILDDIR/cuda_kernels.resources
[ -f "$resources" ] || { echo "1..0 # SKIP this build has no nvcc"; exit 0; }
echo 1..4
count=0

# A line for each kernel with a barrier: name, architecture, bytes spilled, registers, bytes of shared memory.
kernels=$(awk '
  /Compiling entry function/ { split($0, part, "\047"); name = part[2]; arch = part[4] }
  /bytes stack frame/ { spilled = $5 + $9 }
  /Used [0-9]+ registers/ && /used [1-9][0-9]* barriers/ {
    match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
    shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
    print name, arch, spilled, registers, shared
  }' "$resources")

# holds TITLE CONDITION: awk's condition is true of every line.
holds() {
  count=$((count + 1))
  bad=$(echo "$kernels" | awk "!($2)")
  if [ -z "$bad" ]; then
    echo "ok $count - $1"
  else
    echo "not ok $count - $1"; echo "$bad" | head -n 8 | sed 's/^/# /'
  fi
}

archs=$(echo "$kernels" | awk '{ print $2 }' | sort -u | wc -l)
found=$(echo "$kernels" | wc -l)
count=1
if [ "$archs" -ge 1 ] && [ "$found" -ge $((archs * 50)) ]; then echo "ok 1 - $found kernels of $archs architectures"
else echo "not ok 1 - block kernels, expected 50 of each architecture, found $found of $archs"; fi
holds "none spills registers" '$3 == 0'
holds "at most 128 registers a thread" '$4 <= 128'
holds "at most 48 KiB of shared memory a block" '$5 <= 49152'
