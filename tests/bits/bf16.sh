#!/bin/sh
# TAP: --precision bf16 has one digest, too: over instruction sets, AMX and the reference, threads, accumulation, ranks,
# stages and resume, on a network of nearly every operation, one of 5 x 5 convolutions under pools, one of convolutions
# in groups, one that float computes by tiles and one whose weights caches do not keep.
. "$SRCDIR/tests/tap.sh"

# The constants. A change of one changes every user's results: the commit must give the reason.
mixed_digest=343d3ade45e141733fc642d3886a5c1cdc947fbf3b968625a01d63d04feee7a2
lenet_digest=b62e019d4d5c58333a2d21210bf1f37da9a88aa784daf82bbab286a8f12e5179
groups_digest=7fb30124cdc7b88f5cc72b8350e425e738caf408410f5db0c9adfce36f141058
streamed_digest=45a9318c54ecafc85c8138c27e549837d04eccdc620bf515a528b88793d583a7
tiles_digest=5fe0e8bd14f7df68bc6715f8b28a49629821237a4c088e056ba465371120fc1c
mixed="--model $SRCDIR/tests/bits/mixed.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
lenet="--model lenet5 --optimizer sgd --lr 0.05 --momentum 0.9"
groups="--model $SRCDIR/tests/bits/groups.yaml --optimizer adamw --lr 0.01"
streamed="--model $SRCDIR/tests/bits/streamed.yaml --optimizer adamw --lr 0.001"
tiles="--model $SRCDIR/tests/bits/tiles.yaml --optimizer adamw --lr 0.01"

ranks=1

train() { "$HEDDLE" train --json "$@"; }

check() { # EXPERIMENT ISA HOW THREADS LAYOUT...
  HEDDLE_ISA=$2 experiment=$1 isa=$2 how=$3 threads=$4
  export HEDDLE_ISA
  shift 4
  name="$isa, $threads threads, ${*:-no more}, $how, $experiment"
  eval "wanted=\$${experiment}_digest options=\$$experiment"
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  set -- $options --data "$folder/data" --batch 32 --epochs 2 --seed 7 --precision bf16 --threads "$threads" "$@" \
    --out "$folder/run"
  if [ "$how" = whole ]; then
    train "$@" >"$folder/json" 2>"$folder/err"
  else
    train "$@" --max-steps 7 >/dev/null 2>"$folder/err" &&
      train --resume "$folder/run" --max-steps 10 --threads "$threads" --procs "$ranks" >"$folder/json" \
        2>>"$folder/err"
  fi
  found=$(values isa threads ranks precision steps weights_sha256)
  wanted="${isa}_bf16 $threads $ranks bf16 10 $wanted"
  [ "$found" = "$wanted" ]
  result $? "$name" "expected $wanted, found $found $(cat "$folder/err")"
}

mkdir "$folder/data"
"$BUILDDIR/tests/bits/make_idx" "$folder/data" 138 50 || { echo "Bail out! no data"; exit 1; }
isas="avx2 avx512 amx neon"
[ "$depth" -lt 2 ] || isas="reference scalar $isas"
for isa in $isas; do
  if ! HEDDLE_ISA=$isa "$HEDDLE" summary --model mlp --precision bf16 >/dev/null 2>"$folder/err"; then
    result skip "$isa: $(cat "$folder/err")"
    continue
  fi
  check mixed $isa whole 1 --accumulate 1
  check mixed $isa resumed 2 --accumulate 4
  check lenet $isa whole 3 --accumulate 2
  check groups $isa whole 2
  check tiles $isa whole 2 --accumulate 2
  [ "$isa" = reference ] || [ "$isa" = scalar ] || check streamed $isa whole 3
done
best=$(HEDDLE_ISA='' "$HEDDLE" train --json --model mlp --data "$folder/data" --precision bf16 --max-steps 1 \
  --out "$folder/best" |
  tail -n 1 | sed -n 's/.*"isa": "\([^"]*\)_bf16".*/\1/p')
check mixed "$best" whole 2 --stages 2
[ "$(tail -n 1 "$folder/json" | grep -o '"first"' | wc -l)" = 2 ]
result $? "in two stages" "$(tail -n 1 "$folder/json")"
ranks=2
check mixed "$best" whole 1 --procs 2
check tiles "$best" resumed 1 --procs 2 --accumulate 2
echo "1..$count"
