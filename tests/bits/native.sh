#!/bin/sh
# TAP: --arithmetic native: one digest on this machine over threads, accumulation and resume, reported with the library
# that it is of; where no layer is large enough it is the portable one's. Without a library, or with another one than a
# run began with, it is refused.
. "$SRCDIR/tests/tap.sh"
unset OPENBLAS_CORETYPE HEDDLE_BLAS
same() { # NAME WANTED FOUND
  [ -n "$2" ] && [ "$2" = "$3" ]
  result $? "$1" "expected $2, found $3 $(cat "$folder/err")"
}

train() { # OUT OPTIONS...: leaves the digest in $digest
  out=$1
  shift
  "$HEDDLE" train --data digits --json --out "$folder/$out" "$@" >"$folder/json" 2>"$folder/err"
  digest=$(value weights_sha256 "$folder/json")
}

"$HEDDLE" train --model simplenet --max-steps 1 --arithmetic native --out "$folder/probe" >"$folder/said" \
  2>"$folder/err" || {
  grep -q "expects OpenBLAS" "$folder/err" && { echo "1..0 # SKIP $(cat "$folder/err")"; exit 0; }
  echo "Bail out! $(cat "$folder/err")"
  exit 1
}
grep -Eq '^weights_sha256  [0-9a-f]{64} \(native, .+\)$' "$folder/said"
same "the digest's line names the library" 0 $?
wide="--model $SRCDIR/tests/bits/native.yaml --batch 1030 --shards 4 --lr 0.01 --seed 7"
# shellcheck disable=SC2086
train one $wide --max-steps 4 --threads 1 --arithmetic native
wanted=$digest
[ -n "$(value library "$folder/json")" ]
same "the report names the library" 0 $?
[ "$(grep -c "\"library\": \"$(value library "$folder/json")\"" "$folder/one/run.json")" = 1 ]
same "so does the record" 0 $?
for layout in "2 1" "3 4" "5 2"; do
  # shellcheck disable=SC2086
  train "layout-${layout% *}" $wide --max-steps 4 --arithmetic native --threads "${layout% *}" \
    --accumulate "${layout#* }"
  same "${layout% *} threads, accumulate ${layout#* }: the digest of one thread" "$wanted" "$digest"
done
# shellcheck disable=SC2086
train own $wide --max-steps 4 --threads 2
case $(grep '"library"' "$folder/one/run.json") in
*SkylakeX* | *Cooperlake* | *SapphireRapids*)
  [ "$digest" != "$wanted" ]
  same "the large layer's sums are the library's" 0 $?
  ;;
*) same "the large layer's sums are those of heddle's kernels" "$wanted" "$digest" ;;
esac
# shellcheck disable=SC2086
train part $wide --max-steps 2 --threads 3 --arithmetic native
HEDDLE_BLAS=none "$HEDDLE" train --resume "$folder/part" --max-steps 4 >/dev/null 2>"$folder/err"
same "without the library it is not resumed" 1 $?
grep -q "expects OpenBLAS" "$folder/err"
same "and the message names it" 0 $?
train part --resume "$folder/part" --max-steps 4 --threads 2
same "resumed on other threads: the digest of one thread" "$wanted" "$digest"
sed 's/"library": "[^"]*"/"library": "OpenBLAS 0.0.1 Pentium"/' "$folder/part/last/run.json" >"$folder/changed" &&
  cat "$folder/changed" >"$folder/part/last/run.json"
train part --resume "$folder/part" --max-steps 6
grep -q "expected OpenBLAS 0.0.1 Pentium as in that run" "$folder/err"
same "with another library it is refused" 0 $?
small="--model mlp --max-steps 20 --seed 7"
# shellcheck disable=SC2086
train portable $small && wanted=$digest
# shellcheck disable=SC2086
train small $small --arithmetic native
same "a network without large layers: the portable digest" "$wanted" "$digest"
"$HEDDLE" train --arithmetic native --precision bf16 --out "$folder/both" >/dev/null 2>"$folder/err"
same "bf16 is portable: both together are refused" 2 $?
echo "1..$count"
