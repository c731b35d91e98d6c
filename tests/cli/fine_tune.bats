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
  "$HEDDLE" train --model net.yaml --data random:3x16x16:7 --max-steps 3 --out first >out 2>err || { cat err; return 1; }
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
  fails 2 train --model first.onnx --head auto --fresh
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
