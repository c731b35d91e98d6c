# Fine-tuning: a new head on a trained network, what is frozen, and what of the network the data follow.

load cli

# network NAME LAYERS...: three channels of 16x16.
network() {
  name=$1
  shift
  printf '%s\n' "model: $name" "input: [3, 16, 16]" "layers:" "  - conv1: {op: conv2d, out: 6, kernel: 3}" \
    "  - bn1: {op: batch_norm}" "  - relu1: {op: relu}" "  - pool1: {op: max_pool2d, kernel: 2}" \
    "  - flat: {op: flatten}" "$@" >"$name.yaml"
}

# A network of seven classes in net.yaml, its weights in net.safetensors.
trained() {
  network net "  - fc1: {op: linear, out: 9}" "  - relu2: {op: relu}" "  - fc2: {op: linear, out: 7}"
  "$HEDDLE" train --model net.yaml --data random:3x16x16:7 --max-steps 3 --out first >out 2>err ||
    { cat err; return 1; }
  cp first/last/model.safetensors net.safetensors
}

TUNE="train --model net.yaml --init net.safetensors --data random:3x16x16:4 --max-steps 4 --out tuned --json"

@test "a new head has an output for each class; what is frozen stays, the statistics of its norm too" {
  trained
  "$HEDDLE" $TUNE --head auto --freeze '*' >out
  grep -q '"model_yaml": .*fc2: {op: linear, out: 4}' tuned/run.json
  "$HEDDLE" eval tuned >/dev/null
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 - <<'END'
import json, struct
def read(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: data[slice(*t["data_offsets"])] for name, t in head.items() if name != "__metadata__"}
before, after = read("net.safetensors"), read("tuned/last/model.safetensors")
same = sorted(name for name in after if before.get(name) == after[name])
assert same == ["bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.weight", "conv1.bias", "conv1.weight",
                "fc1.bias", "fc1.weight"], same
END
}

@test "the weights of the new head follow from the seed" {
  trained
  for seed in 1 1 2; do
    rm -rf tuned
    "$HEDDLE" $TUNE --head auto --seed $seed --lr 0 >out
    digest_of out >>digests
  done
  [ "$(sed -n 1p digests)" = "$(sed -n 2p digests)" ]
  [ "$(sed -n 1p digests)" != "$(sed -n 3p digests)" ]
}

@test "what cannot be fine-tuned is refused by name" {
  trained
  network ends "  - fc1: {op: linear, out: 9}" "  - relu2: {op: relu}"
  network shared "  - fc1: {op: linear, out: 4}" "  - fc2: {op: linear, out: 4}" \
    "  - fc3: {op: linear, share: fc2, out: 4}"
  network block "  - last: {repeat: 2, layers: [{fc: {op: linear, out: 4}}]}"
  network other "  - fc1: {op: linear, out: 10}" "  - relu2: {op: relu}" "  - fc2: {op: linear, out: 7}"
  network longer "  - fc1: {op: linear, out: 9}" "  - fc9: {op: linear, out: 9}" "  - fc2: {op: linear, out: 7}"
  fails 2 $TUNE --head auto --model ends.yaml
  says --head 'linear layer' ends.yaml "'relu2'" relu
  fails 2 $TUNE --head auto --model shared.yaml
  says --head 'weights of its own' "'fc3'"
  fails 2 $TUNE --head auto --model block.yaml
  says --head "'last'" 'block of layers'
  fails 1 $TUNE --head auto --model other.yaml
  says net.safetensors fc1.weight 10x294 9x294
  fails 1 $TUNE --head auto --model longer.yaml
  says net.safetensors '13 tensors'
  fails 1 $TUNE --head 3
  says net.yaml 'at least 4 scores'
  fails 2 $TUNE --head auto --freeze 'layer*'
  says --freeze "'layer*'" conv1.weight
  fails 2 $TUNE --head auto --freeze 'conv*,fc2.*'
  says --freeze "'fc2.*'" 'new head fc2'
  fails 2 $TUNE --freeze '*'
  says 'parameter to train'
  fails 2 train --model net.yaml --head auto --data random:3x16x16:4
  says --head 'trained network' --init
  "$HEDDLE" export first --onnx first.onnx >out
  fails 2 train --model first.onnx --head auto --fresh --data random:3x16x16:4
  says --head 'trained network'
  [ ! -e tuned ]
}

@test "pictures are resized to the network's input" {
  trained
  command -v python3 >/dev/null || skip "python3 is not installed"
  for name in one two; do
    mkdir -p photos/$name
    for i in 1 2 3 4 5 6 7 8 9; do
      python3 - $((10 + i)) $((20 - i)) "photos/$name/$i.png" <<'END'
import struct, sys, zlib
width, height, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes((7 * x + 3 * y + c) % 256 for x in range(width) for c in range(3)) for y in range(height))
open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
    done
  done
  "$HEDDLE" $TUNE --data photos --head auto --freeze '*' >out
  grep -q 'pictures are resized to 16x16, the input of net.yaml' out
  "$HEDDLE" predict tuned photos/one/1.png >out
  grep -q one out
}

# pictures FOLDER COUNT: that many of each of two classes, in four sizes.
pictures() {
  "$BUILDDIR/tests/bits/make_data" pictures "$1" "$2" 20
}

FROZEN="--head auto --freeze * --max-steps 400 --epochs 3"

@test "what frozen layers make of samples is computed once, and a file of it is not believed" {
  trained
  set -f
  "$HEDDLE" $TUNE $FROZEN >out
  digest=$(digest_of out)
  grep -q "the frozen layers up to 'relu2' are computed once for each sample" out
  "$HEDDLE" $TUNE $FROZEN --out none --keep-features no >out
  [ "$(digest_of out)" = "$digest" ]
  no grep -q 'computed once' out
  "$HEDDLE" $TUNE $FROZEN --out disk --keep-features disk >out
  [ "$(digest_of out)" = "$digest" ]
  grep -q 'MB of features in the cache on disk' out
  set +f
  kept=$(ls .cache/heddle/features-*)
  [ "$(wc -l <<<"$kept")" = 1 ]
  cp "$kept" intact
  printf x | dd of="$kept" bs=1 seek=5000 conv=notrunc status=none
  set -f
  "$HEDDLE" $TUNE $FROZEN --out damaged --keep-features disk >out
  [ "$(digest_of out)" = "$digest" ]
  cmp "$kept" intact
  # other weights, other transforms: other files
  "$HEDDLE" train --model net.yaml --data random:3x16x16:7 --max-steps 5 --out second >out
  "$HEDDLE" $TUNE $FROZEN --out other --keep-features disk --init second/last/model.safetensors >out
  "$HEDDLE" $TUNE $FROZEN --out moved --keep-features disk --transforms \
    '[to_float, {normalise: {mean: 0.1, std: 1}}]' >out
  set +f
  [ "$(ls .cache/heddle/features-* | wc -l)" = 3 ]
}

@test "a file of features is of one normalisation of its rows" {
  printf '%s\n' 'model: rows' 'input: [3]' 'layers:' '  - fc1: {op: linear, out: 4}' '  - relu1: {op: relu}' \
    '  - fc2: {op: linear, out: 2}' >rows.yaml
  awk -v OFS=, 'BEGIN { for (i = 0; i < 40; i++) print i % 7, 100 * (i % 5), i % 3, i % 2 }' >rows.csv
  "$HEDDLE" train --model rows.yaml --data rows.csv --max-steps 5 --out first >out
  set -f
  for normalize in column none; do
    for keep in no disk; do
      "$HEDDLE" train --model rows.yaml --init first/last/model.safetensors --data rows.csv --freeze 'fc1.*' \
        --epochs 3 --batch 10 --normalize $normalize --keep-features $keep --out $normalize-$keep >out
    done
    "$HEDDLE" digest $normalize-no >wanted
    "$HEDDLE" digest $normalize-disk >found
    [ "$(cut -d ' ' -f 1 wanted)" = "$(cut -d ' ' -f 1 found)" ]
  done
}

@test "numbers to predict stay what they are where features are kept behind transforms" {
  printf '%s\n' 'model: rows' 'input: [3]' 'layers:' '  - fc1: {op: linear, out: 4}' '  - relu1: {op: relu}' \
    '  - fc2: {op: linear, out: 1}' 'loss: mse' >rows.yaml
  awk -v OFS=, 'BEGIN { for (i = 0; i < 40; i++) print i % 7, 100 * (i % 5), i % 3, i % 9 / 2 }' >rows.csv
  "$HEDDLE" train --model rows.yaml --data rows.csv --max-steps 5 --out first >out
  set -f
  for keep in no auto; do
    "$HEDDLE" train --model rows.yaml --init first/last/model.safetensors --data rows.csv --freeze 'fc1.*' --epochs 3 \
      --batch 10 --normalize channel --transforms '[to_float, normalise]' --keep-features $keep --out $keep >out
    digest_of out >>digests
  done
  grep -q 'computed once' out
  [ "$(uniq digests | wc -l)" = 1 ]
}

@test "photos of one class alone are pointed out" {
  trained
  "$BUILDDIR/tests/bits/make_data" pictures photos 60 20
  rm -r photos/train/c[1-9] photos/test/c[1-9]
  mv photos/train/c0 photos/train/cat
  mv photos/test/c0 photos/test/cat
  note="photos: all training samples have one label, 0 'cat': there is nothing to tell apart"
  "$HEDDLE" data photos --json >out
  [[ "$(json_get notes.0 <out)" == "$note"* ]]
  sed 's/16, 16/32, 32/' net.yaml >wide.yaml
  "$HEDDLE" train --model wide.yaml --data photos --max-steps 1 --out one >out 2>err
  cat out err | grep -qF "$note"
  for label in 7 x; do
    { echo a,label && for i in $(seq 30); do echo "$i,$label"; done; } >rows.csv
    "$HEDDLE" data rows.csv >out
    grep -q 'note .*rows.csv: all training samples have one label' out
  done
  printf '%s\n' 'model: o' 'input: data' 'loss: bce_with_logits' 'layers: [{l: {op: linear, out: classes}}]' >odds.yaml
  for seed in 1 2 3 4 5 6; do # the sign of the only score means nothing
    how=linear && [ $((seed % 2)) = 0 ] || how="odds.yaml --transforms [to_float,one_hot]"
    "$HEDDLE" train --model $how --data rows.csv --max-steps 1 --seed $seed --metric f1 --json --out r$seed >out
    [ "$(json_get test_accuracy <out) $(json_get test_metric <out)" = "1 1" ]
    "$HEDDLE" eval r$seed | grep -q '0 x  100.00 %  6 of 6'
  done
  { echo a,label && for i in $(seq 30); do echo "$i,$((i % 2))"; done; } >rows.csv
  "$HEDDLE" data rows.csv >out
  no grep -q 'one label' out
}

@test "samples that differ in every epoch are not kept, unless as fixed views" {
  trained
  FLIP='[horizontal_flip,to_float,normalise]'
  set -f
  "$HEDDLE" $TUNE $FROZEN --transforms $FLIP >out
  no grep -q 'computed once' out
  "$HEDDLE" $TUNE $FROZEN --transforms $FLIP --keep-views 2 --out views >out
  grep -q "computed once for each sample's view" out
  digest=$(digest_of out)
  "$HEDDLE" $TUNE $FROZEN --transforms $FLIP --keep-views 2 --keep-features no --out again >out
  [ "$(digest_of out)" = "$digest" ]
  fails 2 $TUNE $FROZEN --keep-views 2 --out bad
  says --keep-views 'random --transforms'
  fails 2 $TUNE $FROZEN --keep-views 2 --transforms '[{one_hot: {classes: 4}}, mixup, to_float, normalise]' --out bad
  says --keep-views mixup
  fails 2 train --resume views --keep-views 3
  says keep-views
  set +f
  [ ! -e bad ]
}

@test "bisect names the first step of a second stage where that is where two runs part, and repeats both stages" {
  trained
  network net "  - fc1: {op: linear, out: 9}" "  - relu2: {op: relu}" "  - fc2: {op: linear, out: 7}"
  STAGES="train --model net.yaml --init net.safetensors --data random:3x16x16:4 --head auto --freeze conv*,bn*"
  STAGES="$STAGES --batch 64 --epochs 3 --unfreeze conv*@1 --shards 4"
  set -f
  "$HEDDLE" $STAGES --out a --json >out
  steps=$(json_get steps <out)
  "$HEDDLE" $STAGES --threads 1 --out b >out
  "$HEDDLE" $STAGES --lr-scale 0.3 --out c >out
  set +f
  "$HEDDLE" bisect a b >out
  grep -q "equal: $steps steps have equal losses" out
  code=0
  "$HEDDLE" bisect a c --json >out 2>err || code=$?
  [ "$code" -eq 3 ]
  [ "$(json_get step what <out)" = "$((steps / 3 + 1)) conv1.weight, update" ]
  fails 1 bisect a --inject 5,2,1
  says "a: expected a run of one stage" "found --unfreeze"
}

@test "a second stage that makes no sense is refused" {
  trained
  refuses <<'END'
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'conv*' | --unfreeze | PATTERNS@EPOCH
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'conv*@0' | --unfreeze | 'conv*@0'
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'conv*@x' | --unfreeze | 'conv*@x'
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze '@2' | --unfreeze | '@2'
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'conv*@3' | --unfreeze | --epochs 3
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'fc1*@1' | --unfreeze | frozen | 'fc1*'
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --lr-scale 0.5 | --lr-scale | --unfreeze
    2 $TUNE --head auto --freeze 'conv*' --epochs 3 --unfreeze 'conv*@1' --profile p.json | --profile | --unfreeze
END
  [ ! -e tuned ]
}
