#!/bin/sh
# TAP: --precision bf16 has one digest, too: over threads, accumulation, resume, and over the reference's emulation and
# AVX512_BF16, on a network of nearly every operation and one of 5 x 5 convolutions under pools.
. "$SRCDIR/tests/tap.sh"

# The constants. A change of one changes every user's results: the commit must give the reason.
mixed_digest=00b4bf8ae75b8cf3be181f2878c02861cad28e027a84a66801a0ed230bbcc152
lenet_digest=28d931a027f48c83090b53488df88dc1be096265e3410ff3d874e50745b8d6ef
mixed="--model $SRCDIR/tests/bits/mixed.yaml --optimizer adamw --lr 0.01 --clip-grad-norm 0.5"
lenet="--model lenet5 --optimizer sgd --lr 0.05 --momentum 0.9"

train() { "$HEDDLE" train --json "$@"; }

check() { # EXPERIMENT ISA THREADS ACCUMULATE HOW
  HEDDLE_ISA=$2
  export HEDDLE_ISA
  name="$2, $3 threads, accumulate $4, $5, $1" layout="--threads $3 --accumulate $4" ran=$2_bf16 how=$5
  eval "wanted=\$$1_digest options=\$$1"
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  set -- $options --data "$folder/data" --batch 32 --epochs 2 --seed 7 --precision bf16 $layout --out "$folder/run"
  if [ "$how" = whole ]; then
    train "$@" >"$folder/json" 2>"$folder/err"
  else
    # shellcheck disable=SC2086
    train "$@" --max-steps 7 >/dev/null 2>"$folder/err" &&
      train --resume "$folder/run" --max-steps 10 $layout >"$folder/json" 2>>"$folder/err"
  fi
  found=$(values isa precision steps weights_sha256)
  if [ "$found" = "$ran bf16 10 $wanted" ]; then result pass "$name"
  else result fail "$name" "expected $ran bf16 10 $wanted, found $found $(cat "$folder/err")"; fi
}

mkdir "$folder/data"
"$BUILDDIR/tests/bits/make_idx" "$folder/data" 138 50 || { echo "Bail out! no data"; exit 1; }
for isa in reference avx512; do
  if ! HEDDLE_ISA=$isa "$HEDDLE" summary --model mlp --precision bf16 >/dev/null 2>"$folder/err"; then
    result skip "$isa: $(cat "$folder/err")"
    continue
  fi
  check mixed $isa 1 1 whole
  check mixed $isa 2 4 resumed
  check mixed $isa 5 2 whole
  check lenet $isa 3 1 resumed
  check lenet $isa 8 4 whole
done
echo "1..$count"
