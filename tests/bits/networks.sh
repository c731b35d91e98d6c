#!/bin/sh
# Networks with a committed digest each: the same over threads and instruction sets. bits.sh tries everything a layout can be on
# one network; here stand the networks that bring other operations into play.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-networks.XXXXXX")
trap 'rm -rf "$folder"' EXIT
count=0

# value KEY FILE: a key of the JSON in the last line.
value() { tail -n 1 "$2" | sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# check NETWORK DIGEST OPTIONS...: ten steps, the last one short, on every instruction set with some thread counts.
check() {
  network=$1 wanted=$2
  shift 2
  for isa in scalar avx2 avx512 neon; do
    for threads in 1 3 8; do
      count=$((count + 1))
      rm -rf "$folder/run"
      if HEDDLE_ISA=$isa "$HEDDLE" train --model "$SRCDIR/tests/bits/$network.yaml" --data "$folder/data" --batch 32 --epochs 2 \
        --seed 7 --threads "$threads" --json --out "$folder/run" "$@" >"$folder/json" 2>"$folder/err"; then
        found="$(value isa "$folder/json") $(value threads "$folder/json") $(value steps "$folder/json") $(value weights_sha256 "$folder/json")"
        if [ "$found" = "$isa $threads 10 $wanted" ]; then echo "ok $count - $network, $isa, $threads threads"
        else echo "not ok $count - $network, $isa, $threads threads"; echo "# expected $isa $threads 10 $wanted, found $found"; fi
      elif grep -q HEDDLE_ISA "$folder/err"; then echo "ok $count # SKIP $isa: $(cat "$folder/err")"
      else echo "not ok $count - $network, $isa, $threads threads"; sed 's/^/# /' "$folder/err"; fi
    done
  done
}

mkdir "$folder/data"
"$BUILDDIR/tests/bits/make_idx" "$folder/data" 138 50 || { echo "Bail out! no data"; exit 1; }

# The constants. To change one is to change what every user computes: say why in the commit.
check groups caf3359ac77b8cf321d2222d42868fcd26f321be4f3a073c61b10dc40d2fef0d --optimizer adamw --lr 0.01 --clip-grad-norm 0.5
echo "1..$count"
