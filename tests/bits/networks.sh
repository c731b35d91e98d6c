#!/bin/sh
# Networks with a committed digest each: the same over threads and instruction sets. bits.sh tries everything a layout
# can be on one network; here stand the networks that bring other operations into play.
. "$SRCDIR/tests/tap.sh"

# check NAME MODEL DATA DIGEST OPTIONS...: ten steps, the last one short, on every instruction set, each with another
# number of threads and another accumulation; the slow ones, scalar kernels and a GPU's stand-in, take turns. Every
# layout on every instruction set is for tests/plan/test_networks.
networks=0
check() {
  name=$1 model=$2 data=$3 wanted=$4
  shift 4
  networks=$((networks + 1)) slow="$scalar $gpu"
  if [ "$depth" -lt 3 ] && [ -n "$scalar" ] && [ -n "$gpu" ]; then
    [ $((networks % 2)) -eq 0 ] && slow=$gpu || slow=$scalar
  fi
  for isa in $isas $slow; do
    layout=1,1 kernels=$isa
    case $isa in
    avx2 | neon) layout=3,4 ;;
    avx512) layout=8,2 ;;
    "$gpu") layout=2,1 kernels=scalar ;;
    esac
    threads=${layout%,*} accumulate=${layout#*,} title="$name, $isa, threads,accumulate $layout"
    rm -rf "$folder/run"
    if HEDDLE_ISA=$kernels "$HEDDLE" train --model "$model" --data "$folder/$data" --batch 32 --epochs 2 --seed 7 \
      --threads "$threads" --accumulate "$accumulate" --json --out "$folder/run" \
      --device "$([ "$isa" = "$gpu" ] && echo cuda || echo cpu)" "$@" >"$folder/json" 2>"$folder/err"; then
      found=$(values isa threads accumulate ranks workers steps weights_sha256)
      expected="$isa $threads $accumulate ${ranks:-1} ${workers:-0} 10 $wanted"
      [ "$found" = "$expected" ]
      result $? "$title" "expected $expected, found $found"
    elif grep -q HEDDLE_ISA "$folder/err"; then result skip "$isa: $(cat "$folder/err")"
    else result fail "$title" "$(cat "$folder/err")"; fi
  done
}

# check_loss LOSS DATA DIGEST: the model behind this loss.
check_loss() {
  outs=10
  [ "$2" = labels ] || outs=2
  { sed "s/OUTPUTS/$outs/" "$SRCDIR/tests/bits/losses.yaml"; echo "loss: $1"; } >"$folder/model.yaml"
  check "loss $1" "$folder/model.yaml" "$2" "$3" --lr 0.01
}

mkdir "$folder/labels" "$folder/targets"
"$BUILDDIR/tests/bits/make_idx" "$folder/labels" 138 50 || { echo "Bail out! no data"; exit 1; }
"$BUILDDIR/tests/bits/make_idx" "$folder/targets" 138 50 targets || { echo "Bail out! no data"; exit 1; }

for rows in "2x4x3 3 classes" "1x1x11 3 targets" "2x2x3 3 targets" "2x3x5 5 heads"; do
  # shellcheck disable=SC2086
  "$BUILDDIR/tests/bits/make_data" rows "$folder/${rows%% *}" 138 50 $rows || { echo "Bail out! no data"; exit 1; }
done

"$BUILDDIR/tests/bits/make_data" shapes "$folder/shapes" 138 50 || { echo "Bail out! no data"; exit 1; }

awk 'BEGIN { # 2,224 characters to train, 138 windows of 16
  for (s = 7; i < 2471; i++) {
    s = (s * 1103 + 12345) % 65536
    printf "%s", substr("abcdefgh \n", int(s / 64) % 10 + 1, 1)
  }
}' >"$folder/text.txt"

"$HEDDLE" train --model simplenet --data "$folder/labels" --max-steps 1 --json --out "$folder/probe" >"$folder/json"
fastest=$(values isa)
. "$SRCDIR/tests/cuda/which_gpu.sh"
isas="avx2 avx512 neon" scalar=scalar
[ "$depth" -ge 2 ] || scalar=
[ -z "${HD_GPU:-}" ] || isas= scalar= # a GPU is lent for a short time; CPUs are tested elsewhere
[ "$depth" -ge 2 ] || gpu_arch() { echo "make check-all tries it"; return 1; }
gpu=$(gpu_arch "$folder") || { result skip "a GPU: $gpu"; gpu=; }

# The constants. A change of one changes every user's results: the commit must give the reason.
check groups "$SRCDIR/tests/bits/groups.yaml" labels caf3359ac77b8cf321d2222d42868fcd26f321be4f3a073c61b10dc40d2fef0d \
  --optimizer adamw --lr 0.01 --clip-grad-norm 0.5
check upsampled "$SRCDIR/tests/bits/upsampled.yaml" labels \
  db19218c415258f92b725bc8318a8b9a17a99e414876a1a322c2f9c452f90c0d \
  --optimizer adamw --lr 0.01
check activations "$SRCDIR/tests/bits/activations.yaml" labels \
  801c9b78e0238e7e602499e74bd3d45f2b9b78eea5c4bc8d6096194846590693 --lr 0.01
check resized "$SRCDIR/tests/bits/resized.yaml" labels \
  8d8869964e8aa80e9f407af7f1fb5ef1d3fcdc222acd6030dc7147040c172145 --lr 0.01
check tiles "$SRCDIR/tests/bits/tiles.yaml" labels bd51cfa6634d7f0f5d727815a8a5e92dad87930725f649b82c18081d6022f4c4 \
  --optimizer adamw --lr 0.01
check deep "$SRCDIR/tests/bits/deep.yaml" labels 9ab62cb2f3101a34003389500ca808052ae88189b8d0295dd470d7f32760b138 \
  --optimizer adamw --lr 0.01
check shard_norms "$SRCDIR/tests/bits/shard_norms.yaml" labels \
  ad2b084bb8415cd6563f248562c0bf313fe56cfb0b901ae9adb71a4c2265f1bc \
  --optimizer adamw --lr 0.01
check text "$SRCDIR/tests/bits/text.yaml" text.txt 9bb94f2f82fd307d6f6f73360c22089a1a37a6286f48c01697bfc3adedc1da3b \
  --lr 0.01 --clip-grad-norm 0.5
check llama "$SRCDIR/tests/bits/llama.yaml" text.txt c3ccc37252e5cd894740234176428b676b2b2215072a031594eaa629130e2dd6 \
  --lr 0.01 --clip-grad-norm 0.5
check states "$SRCDIR/tests/bits/states.yaml" text.txt \
  3b18ae891a73fd73e1e89b11f06afa2a42bf0f0e3ddffc0756598c5d72d7cbf2 --lr 0.01 --clip-grad-norm 0.5
check pixels "$SRCDIR/tests/bits/pixels.yaml" shapes 3c2689a11d0a24cc5c8b310bd50868afb520d586b0ebbad1351ca41223d8cc46 \
  --lr 0.01 --clip-grad-norm 0.5
check "pixels that move" "$SRCDIR/tests/bits/pixels.yaml" shapes \
  a47ddaeb9c02824be44e756a09934f7a3d72fcf0954abd0af6614e5d1d8661ce --lr 0.01 \
  --transforms '[horizontal_flip, {random_crop: {size: 16, padding: 3}}, {rotation: 20}, to_float, normalise]'
check unet-small unet-small shapes 8b2d23fccca4fe62b3ddbd79e9a7631935a689a06576f8825c6cfaea91204304 --lr 0.01
# Norms and elementwise layers one after the other, whose values are computed again from each other for gradients; a
# norm of a flattened image.
chain() { # NAME DATA DIGEST
  check "$1" "$SRCDIR/tests/bits/$1.yaml" "$2" "$3" --lr 0.01
}
chain preact labels 9c188f385fd1729474644709aa4b9ba0fa8cdd46b2a09e62070fd3ee6b3eb52b
chain bn3 labels 4c996df13ea579eff6f40a41105b6833f6106b3bca708fd94162bc0b6b752946
chain conv_swish_norm 2x4x3 186eb5dffa0363d280485be13e7db81d0070306a2b437deeae98cc928ca6bb76
chain norm_after_flatten 2x2x3 818781aac4a7a3e7a090e98add232044b6cad37c8c4bfaaff4b5165578c58d16
chain signal 1x1x11 f19f477715abde10b2375d7ed84daabd5aaaf4888743962fdabd3efbc988e4d8
chain two_norms_swish 1x1x11 980815e19361abb4479b47fd09fc97ad6259209a1545932fd3ee7cda85eb4fc5
patches() { # NAME OPTIONS...
  name=$1
  shift
  check "$name" "$SRCDIR/tests/bits/patches.yaml" labels \
    c8f143213bcb51d409c4921d0656f37f8de7ed03db19cdf59bcd214de40032cc \
    --transforms '[{translate: 2}, alternating_flip, to_float, normalise, {cutout: 6}]' --lr 0.01 "$@"
}
patches patches
scalar_then=$scalar gpu_then=$gpu scalar= gpu= # threads divide what the CPU's kernels write
check streamed "$SRCDIR/tests/bits/streamed.yaml" labels \
  9fd3d52bca0cc063492ffccef202227ba6b93de6e12451115e759627deeb0f7c \
  --optimizer adamw --lr 0.001
scalar=$scalar_then gpu=$gpu_then
every=$isas isas=$fastest scalar_then=$scalar scalar= gpu_then=$gpu gpu= # kernels have nothing to add
ranks=2
patches 'patches, two ranks' --procs 2
ranks=1 workers=2
patches 'patches, two workers' --workers 2
workers=0
isas=$every scalar=$scalar_then gpu=$gpu_then
check_loss '{op: cross_entropy, weight: [1, 0, 2.5, 1, 0.3, 1, 1, 4, 1, 0.125], ignore_index: 3, '\
'label_smoothing: 0.1}' \
  labels 14309d632b155b807f3f8ec468f4c8aa4fec173ccb3b760081c113d56d0c7d1f
check_loss '{op: cross_entropy, weight: [1, 0, 2.5, 1, 0.3, 1, 1, 4, 1, 0.125], ignore_index: 5}' \
  labels bb1361b52df4a0b36db3cf8e3c105a3649013bcc648e79bf196b1e2f3b0b579d
check_loss mse targets 32c574916b8e2de10988c1479cbca7c6cb4b2d99e065bbaffbb54a88be5eda55
check_loss l1 targets 8dcab0dc9dd48b9ee0f3ceb26a98b6736b2377d7a59cbe76fcf0525a266c3d8a
check_loss '{op: huber, delta: 0.25}' targets 16bfa0f7f810bccc4c348bf9d29a7e9631fe0af6fe915e7a855a55c20c53d177
check_loss '{op: bce_with_logits, pos_weight: [2.5, 0.3]}' \
  targets bc974ec33d0ecf6cdf4d0d3d20f2b6fd2a2b1fc76c89ebbfa46b6976768d31c7
check heads "$SRCDIR/tests/bits/heads.yaml" 2x3x5 \
  f4f86dc74778319f8d9fa097d18851040d75601e0769160c326a5a97e88af34a --lr 0.01
echo "1..$count"
