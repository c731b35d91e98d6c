#!/bin/sh
# ONNX Runtime computes the scores of every built-in model and every operation that heddle exports.
. "$SRCDIR/tests/tap.sh"

python=${PYTHON:-python3}
if ! "$python" -c 'import numpy, onnx, onnxruntime' 2>"$folder/err"; then
  result skip "$python: $(tail -n 1 "$folder/err")"
  echo "1..$count"
  exit 0
fi
mkdir "$folder/digits"
"$BUILDDIR/tests/bits/make_idx" "$folder/digits" 138 50 || { echo "Bail out! no data"; exit 1; }

# compare NAME MODEL OPTIONS...
compare() {
  name=$1 model=$2
  shift 2
  if "$HEDDLE" train --model "$model" --data "$folder/digits" --max-steps 8 --lr 0.01 --batch 32 --out "$folder/$name" \
    "$@" >"$folder/out" 2>&1 &&
    "$HEDDLE" export "$folder/$name" --onnx "$folder/$name.onnx" >>"$folder/out" 2>&1 &&
    "$BUILDDIR/tests/golden/print_scores" "$folder/$name" "$folder/digits" >"$folder/scores" 2>>"$folder/out" &&
    "$python" "$SRCDIR/tests/onnx/runtime_scores.py" "$folder/$name.onnx" "$folder/digits/t10k-images-idx3-ubyte" \
      "$folder/scores" >>"$folder/out" 2>&1; then
    result pass "$name: $(tail -n 1 "$folder/out")"
  else result fail "$name" "$(tail -n 3 "$folder/out")"; fi
}

for model in simplenet mlp cnn lenet5 fastmnist allconv resnet regression; do compare $model $model; done
compare mnist-99 mnist-99 --recipe mnist-99 --warmup 0
for network in activations groups mixed norm patches shared upsampled tiles wide shard_norm; do
  compare $network "$SRCDIR/tests/bits/$network.yaml"
done
sed 's/: relu/: swish/' "$SRCDIR/tests/bits/tiny.yaml" >"$folder/swish.yaml"
compare swish "$folder/swish.yaml"
# Pools that adapt: windows that divide their image, and others.
compare uneven "$SRCDIR/tests/bits/resized.yaml"
sed 's/size: \[3, 4\]/size: [4, 7]/; s/size: \[2, 2\]/size: [2, 1]/' "$SRCDIR/tests/bits/resized.yaml" \
  >"$folder/resized.yaml"
compare resized "$folder/resized.yaml"
# Pools whose windows reach beyond the padding, with a window that begins in it left out.
printf '%s\n' "model: pools" "input: [1, 28, 28]" "layers:" \
  "  - a: {op: avg_pool2d, kernel: 3, stride: 2, ceil_mode: true}" \
  "  - b: {op: avg_pool2d, kernel: 3, stride: 2, padding: 1, ceil_mode: true}" \
  "  - c: {op: avg_pool2d, kernel: [3, 2], stride: [2, 3], padding: 1, ceil_mode: true}" \
  "  - d: {op: max_pool2d, kernel: 2, stride: 2, padding: 1, ceil_mode: true}" \
  "  - f: {op: flatten}" "  - l: {op: linear, out: 10}" >"$folder/pools.yaml"
compare pools "$folder/pools.yaml"
# Images that grow by factors that no float has: nearest along one side, along both, and between pixels.
cat >"$folder/factors.yaml" <<'END'
model: factors
input: [1, 28, 28]
layers:
  - up1: {op: upsample, size: [32, 28]}
  - conv1: {op: conv2d, out: 4, kernel: 3, stride: 4}
  - up2: {op: upsample, size: [20, 24]}
  - up3: {op: upsample, size: [20, 24], mode: bilinear, from: conv1}
  - up4: {op: upsample, size: [20, 24], mode: bilinear, align_corners: true, from: conv1}
  - all: {op: concat, from: [up2, up3, up4]}
  - conv2: {op: conv2d, out: 3, kernel: 3, stride: 3}
  - flat: {op: flatten}
  - fc: {op: linear, out: 10}
END
compare factors "$folder/factors.yaml"

# A linear layer over the places of an image, and layers called as the ends of a file are.
printf '%s\n' "model: rows" "input: [1, 28, 28]" "layers:" "  - pixels: {op: gelu}" \
  "  - c: {op: conv2d, out: 8, kernel: [28, 4], stride: 4}" "  - p: {op: linear, out: 6}" "  - scores: {op: swish}" \
  "  - f: {op: flatten}" "  - o: {op: linear, out: 10}" >"$folder/rows.yaml"
compare places "$folder/rows.yaml"

# Networks of other programs: read, and written again after a step that changes nothing. With RANGE the network
# normalises pixels divided by it.
same() { # NAME DATA RANGE OPTIONS...
  name=$1 data=$2 range=$3
  shift 3
  cp "$SRCDIR/tests/fuzz/corpus/onnx/$name" "$folder/other.onnx"
  rm -rf "$folder/run"
  if "$HEDDLE" train --model "$folder/other.onnx" --data "$data" --max-steps 1 --lr 0 --optimizer sgd \
    --out "$folder/run" \
    "$@" >"$folder/out" 2>&1 &&
    "$HEDDLE" export "$folder/run" --onnx "$folder/again.onnx" >>"$folder/out" 2>&1 &&
    "$python" "$SRCDIR/tests/onnx/runtime_same.py" "$folder/other.onnx" "$folder/again.onnx" $range >>"$folder/out" \
    2>&1; then
    result pass "another program's $name: $(tail -n 1 "$folder/out")"
  else result fail "another program's $name" "$(tail -n 3 "$folder/out")"; fi
}

for name in cnn residual spelled twins means; do same $name random:1x8x8 ""; done
same mlp random:1x1x12 ""
same recurrent random:4x1x8 ""
same own random:1x8x8 255
same own-channels random:3x8x8 255
same own-bytes random:1x8x8 1
same own-unclear random:1x8x8 255 --transforms '[to_float, {normalise: {mean: 0, std: 127.5}}]'
same own-unclear random:1x8x8 1 --transforms '[to_float, {normalise: {mean: 0, std: 0.5}}]'

# Networks of ONNX's operators, made as they are compared.
for script in tests/onnx/runtime_lookalikes.py tests/onnx/runtime_drawn.py tests/onnx/runtime_sklearn.py \
  tools/pytorch/onnx_constants.py; do
  if "$python" "$SRCDIR/$script" "$BUILDDIR/tests/onnx/read_scores" >"$folder/out" 2>&1; then
    result pass "$(basename $script .py): $(tail -n 1 "$folder/out")"
  else result fail "$(basename $script .py)" "$(tail -n 3 "$folder/out")"; fi
done

# Rows with names of classes: what the file says of a raw row is what predict says, and training reads it back.
awk 'BEGIN { print "a,b,species"
  for (i = 0; i < 60; i++) print i % 7 "," i * 1000 % 977 "," (i % 3 ? i % 3 == 1 ? "iris" : "lily" : "rose") }' '\
'>"$folder/rows.csv"
if "$HEDDLE" train --model mlp --data "$folder/rows.csv" --max-steps 8 --out "$folder/rows" >"$folder/out" 2>&1 &&
  "$HEDDLE" export "$folder/rows" --onnx "$folder/rows.onnx" >>"$folder/out" 2>&1 &&
  "$HEDDLE" predict "$folder/rows" "$folder/rows.csv" --json >"$folder/wanted.json" 2>>"$folder/out" &&
  "$python" "$SRCDIR/tests/onnx/runtime_rows.py" "$folder/rows.onnx" "$folder/rows.csv" "$folder/wanted.json" \
    >>"$folder/out" 2>&1; then
  result pass "rows: $(tail -n 1 "$folder/out")"
else result fail "rows" "$(tail -n 3 "$folder/out")"; fi

# Texts: characters of one and two bytes.
mkdir "$folder/texts"
awk 'BEGIN { srand(3); split("the cat sat on a mat é ü and ran", word, " ")
  for (i = 0; i < 2000; i++) printf "%s%s", word[1 + int(rand() * 10)], i % 9 ? " " : "\n" }' >"$folder/texts/train.txt"
tail -n 60 "$folder/texts/train.txt" >"$folder/texts/test.txt"
printf '%s\n' "model: biased" "input: [17]" "layers:" "  - e: {op: embedding, tokens: classes, out: 24}" \
  "  - d: {op: dropout, p: 0.1}" "  - q: {op: linear, out: 72}" "  - r: {op: rotary, heads: 2, base: 500}" \
  "  - a: {op: attention, heads: 2, causal: false}" "  - l: {op: linear, out: 40}" \
  "  - k: {op: conv2d, kernel: 1, out: 40}" "  - g: {op: gelu, approximate: tanh}" \
  "  - h: {op: linear, out: 40, from: a}" "  - c: {op: concat, from: [g, h]}" \
  "  - o: {op: linear, out: classes}" >"$folder/biased.yaml"
# Two layers that are no other one's: their names tell them apart when the file is read.
printf '%s\n' "model: recurrent" "input: [17]" "layers:" "  - e: {op: embedding, tokens: classes, out: 24}" \
  "  - first: {op: lstm, hidden_size: 20, num_layers: 3}" "  - second: {op: lstm, hidden_size: 20, bias: false}" \
  "  - third: {op: lstm, hidden_size: 20, bias: false}" "  - sum: {op: add, from: [second, third]}" \
  "  - d: {op: dropout, p: 0.1}" "  - g: {op: gru, hidden_size: 18, num_layers: 2}" \
  "  - plain: {op: gru, hidden_size: 9, bias: false}" "  - o: {op: linear, out: classes}" >"$folder/recurrent.yaml"
for model in gpt-nano llama-nano sums "$folder/biased.yaml" char-lstm "$folder/recurrent.yaml"; do
  name=$(basename "$model" .yaml)
  if "$HEDDLE" train --model "$model" --data "$folder/texts" --max-steps 8 --batch 16 --lr 0.01 --out "$folder/$name" \
    >"$folder/out" 2>&1 &&
    "$HEDDLE" export "$folder/$name" --onnx "$folder/$name.onnx" >>"$folder/out" 2>&1 &&
    "$BUILDDIR/tests/golden/print_scores" "$folder/$name" "$folder/texts" >"$folder/scores" 2>>"$folder/out" &&
    "$python" "$SRCDIR/tests/onnx/runtime_tokens.py" "$folder/$name.onnx" "$folder/texts" "$folder/scores" \
      >>"$folder/out" 2>&1; then
    result pass "$name: $(tail -n 1 "$folder/out")"
  else result fail "$name" "$(tail -n 3 "$folder/out")"; fi
done
for name in char-lstm recurrent; do
  if [ "$("$HEDDLE" digest "$folder/$name")" = "$("$HEDDLE" digest "$folder/$name.onnx")" ]; then
    result pass "$name, read back: the same weights"
  else result fail "$name, read back: the same weights"; fi
done

# Networks of PyTorch's, in each way that it exports them.
if why=$("$python" -c 'import torch' 2>&1); then
  for network in lstm gru lstm-state gru-batch-last lstm-tokens \
    senet shufflenet mixer vit gpt m5 tcn unet-pad autoencoder convnext multispectral; do
    if "$python" "$SRCDIR/tools/pytorch/onnx_networks.py" "$BUILDDIR/tests/onnx/read_scores" $network \
      >"$folder/out" 2>&1; then
      result pass "PyTorch's $network: $(tail -n 1 "$folder/out")"
    else result fail "PyTorch's $network" "$(tail -n 3 "$folder/out")"; fi
  done
  # Heads that go into the batch are refused by the node that puts them there, however often they are looked at.
  "$python" - "$folder/folded.onnx" >"$folder/out" 2>&1 <<'END'
import sys
import torch
from torch import nn

class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.over, self.last = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.over(x.flatten(2).transpose(1, 2)).mean(1))

torch.onnx.export(Places(), (torch.zeros(2, 8, 3, 3),), sys.argv[1], dynamo=False, opset_version=17,
                  input_names=["pixels"], dynamic_axes={"pixels": {0: "n"}})
END
  "$HEDDLE" summary --model "$folder/folded.onnx" >>"$folder/out" 2>&1
  if grep -q "^heddle: .*Reshape.*leaves the batch as axis 1" "$folder/out"; then result pass "heads in the batch"
  else result fail "heads in the batch" "$(tail -n 3 "$folder/out")"; fi
  # Trained further, each by the program that reads it.
  for network in token token-behind tokens norm-without-bias norm-without-weight instance-norm; do
    rm -rf "$folder/trained"
    if "$python" "$SRCDIR/tests/onnx/trained_same.py" "$HEDDLE" "$folder" $network >"$folder/out" 2>&1; then
      result pass "PyTorch trains $network: $(tail -n 1 "$folder/out")"
    else result fail "PyTorch trains $network" "$(tail -n 3 "$folder/out")"; fi
  done
else result skip "networks of PyTorch's: $(echo "$why" | tail -n 1)"; fi
echo "1..$count"
