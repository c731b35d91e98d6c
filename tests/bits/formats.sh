#!/bin/sh
# TAP: the same samples train to the same weights whatever file they come from: IDX, NPY and NPZ; CIFAR's records and
# NPY. Floats, which only some formats have, have a digest, the same over threads and instruction sets.
. "$SRCDIR/tests/tap.sh"

# train DATA MODEL OPTIONS...: ten steps; the digest.
train() {
  data=$1 model=$2
  shift 2
  rm -rf "$folder/run"
  "$HEDDLE" train --data "$data" --model "$model" --batch 32 --epochs 2 --seed 7 --json --out "$folder/run" "$@" \
    >"$folder/json" 2>"$folder/err" || { cat "$folder/err"; return 1; }
  value weights_sha256 "$folder/json"
}

same() { # NAME WANTED DATA MODEL OPTIONS...
  name=$1 wanted=$2
  shift 2
  found=$(train "$@")
  [ "$found" = "$wanted" ]
  result $? "$name" "expected $wanted, found $found"
}

make() { # KIND NAME
  "$BUILDDIR/tests/bits/make_data" "$1" "$folder/$2" 140 50
}

cat >"$folder/colors.yaml" <<END
model: colors
input: [3, 32, 32]
layers:
  - conv1: {op: conv2d, out: 8, kernel: 3}
  - relu1: {op: relu}
  - pool1: {op: max_pool2d, kernel: 2}
  - flat: {op: flatten}
  - fc1: {op: linear, out: 10}
END
mkdir "$folder/idx"
"$BUILDDIR/tests/bits/make_idx" "$folder/idx" 140 50 && make npy npy && make cifar cifar && make planes planes &&
  make floats floats || { echo "Bail out! no data"; exit 1; }

digits=$(train "$folder/idx" mlp --threads 2)
result $? "IDX files train" "$digits"
same "a folder of .npy files trains to their weights" "$digits" "$folder/npy" mlp --threads 3
make npz digits.npz
case $? in
0) same "so does an .npz file" "$digits" "$folder/digits.npz" mlp --threads 1 ;;
77) result skip "built without libzip" ;;
*) result 1 "an .npz file is written" ;;
esac
colors=$(train "$folder/cifar" "$folder/colors.yaml" --threads 2)
result $? "CIFAR's files train" "$colors"
same "a folder of .npy files of their pixels trains to their weights" "$colors" "$folder/planes" "$folder/colors.yaml" \
  --threads 3 --accumulate 2

# A run that began on one goes on with the other: the data's checksums are the same.
train "$folder/idx" mlp --max-steps 4 >/dev/null
resumed=$("$HEDDLE" train --resume "$folder/run" --data "$folder/npy" --max-steps 10 --json 2>&1 | tail -n 1 |
  sed -n 's/.*"weights_sha256": "\([^"]*\).*/\1/p')
[ "$resumed" = "$digits" ]
result $? "a run on IDX files goes on with .npy files" "expected $digits, found $resumed"

# Evaluation uses the values of each channel in the checkpoint.
train "$folder/cifar" "$folder/colors.yaml" >/dev/null
trained=$(value test_loss "$folder/json")
evaluated=$("$HEDDLE" eval "$folder/run" --json | tail -n 1 | sed -n 's/.*"loss": \([^,}]*\).*/\1/p')
[ -n "$trained" ] && [ "$trained" = "$evaluated" ]
result $? "evaluation normalises each channel as training did" "expected $trained, found $evaluated"

# The constant. A change changes every user's results: the commit must give the reason.
floats_digest=acbb8f001b8a453e16973ca83368c3dbe6432d5abe128697e70848ef74f8b7b3
for isa in scalar avx2 avx512 neon reference; do
  HEDDLE_ISA=$isa
  export HEDDLE_ISA
  if ! train "$folder/floats" "$folder/colors.yaml" --max-steps 1 >"$folder/out" && grep -q HEDDLE_ISA "$folder/out"
  then
    result 0 "# SKIP $isa: $(cat "$folder/out")"
    continue
  fi
  for threads in 1 3; do
    case $depth$isa$threads in 1scalar1 | 1reference1) continue ;; esac # slow
    same "floats, $isa, $threads threads" "$floats_digest" "$folder/floats" "$folder/colors.yaml" --threads $threads
  done
done
echo "1..$count"
