# heddle export, and models from ONNX files. tests/onnx.sh compares with ONNX Runtime.

load cli

LEVEL=-O0 # takes a compiler half the time
[ "${HD_DEPTH:-1}" -lt 2 ] || LEVEL=-O1

NETWORKS="activations groups patches mixed norm shared upsampled tiles wide shard_norm"

need_onnx() {
  "$HEDDLE" train $TINY --out probe >out 2>err
  "$HEDDLE" export probe --onnx probe.onnx >out 2>err || { grep -q 'a build with protobuf-c' err && skip "$(cat err)"; }
  [ -s probe.onnx ]
}

# small_run MODEL RUN ARGS...: a few steps on a few of the digits.
small_run() {
  local model=$1 run=$2
  shift 2
  [ -d few ] || { mkdir few && "$BUILDDIR/tests/bits/make_idx" few 138 20; }
  "$HEDDLE" train --model "$model" --data few --max-steps 4 --lr 0.01 --batch 32 --out "$run" "$@" >out 2>err ||
    { cat err; return 1; }
}

# same_scores RUN NETWORK: the C file's scores for the test samples are heddle's, bit for bit.
same_scores() {
  "$HEDDLE" export "$1" --c "$1.c" >out
  cc $LEVEL -Wall -Werror -Wno-unknown-pragmas -ffp-contract=off -DNETWORK="$2" -DFILE_NAME="\"$PWD/$1.c\"" \
    "$SRCDIR/tests/cli/exported.c" -o "$1.exe" -lm
  "./$1.exe" few/t10k-images-idx3-ubyte >"$1.found"
  "$BUILDDIR/tests/golden/print_scores" "$1" few >"$1.expected"
  [ -s "$1.expected" ]
  cmp "$1.expected" "$1.found"
}

@test "each built-in model as C has heddle's scores, bit for bit" {
  local large= # compilers take seconds for 400,000 weights
  [ "${HD_DEPTH:-1}" -lt 2 ] || large="resnet allconv"
  for model in simplenet mlp cnn lenet5 fastmnist regression $large; do
    small_run $model $model
    same_scores $model $model
  done
  small_run mnist-99 m99 --recipe mnist-99 --warmup 0
  same_scores m99 mnist_99
}

@test "the files name the transforms that are not part of the network" {
  small_run mnist-99 m99 --recipe mnist-99 --warmup 0
  "$HEDDLE" export m99 --c m99.c >out
  grep -q '^ \* pixel: one sample, 1x24x24 in planes' m99.c
  grep -qF ' *     [{centre_crop: {size: 24}}, to_float, normalise]' m99.c
  need_onnx
  "$HEDDLE" export m99 --onnx m99.onnx >out
  grep -aqF '[{centre_crop: {size: 24}}, to_float, normalise]' m99.onnx
  small_run simplenet plain
  "$HEDDLE" export plain --c plain.c >out
  no grep -q 'transforms' plain.c
}

@test "the C file of a network with several heads has the places of each one's scores" {
  printf '%s\n' "model: heads" "input: [1, 1, 3]" "layers:" "  - flat: {op: flatten}" "  - body: {op: linear, out: 8}" \
    "  - act: {op: tanh}" "  - kind: {op: linear, out: 3}" "  - a.b: {op: linear, out: 2, from: act}" \
    "  - a_b: {op: linear, out: 1, from: act}" "loss:" "  - kind: cross_entropy" "  - a.b: mse" \
    "  - a_b: l1" >heads.yaml
  awk 'BEGIN { print "a,b,c,kind,width,height,depth"
    for (i = 0; i < 60; i++) print i % 7 "," i % 11 "," i % 5 "," i % 3 "," i % 4 "," i % 6 "," i % 8 }' >rows.csv
  "$HEDDLE" train --model heads.yaml --data rows.csv --label kind,width,height,depth --max-steps 30 --out r >out 2>err
  "$HEDDLE" export r --c heads.c >out
  cat >main.c <<'END'
#include <stdio.h>
#include "heads.c"
int main(void) {
  const double pixel[heads_pixels] = {3, 5, 2};
  float score[heads_outputs], memory[heads_memory];
  heads_scores(score, pixel, memory);
  int best = 0;
  for (int i = 1; i < heads_kind_size; i++)
    if (score[heads_kind_offset + i] > score[heads_kind_offset + best])
      best = i;
  printf("%d %d %d %d %d", heads_kind_size, heads_a_b_offset, heads_a_b_size, heads_a_b_2_offset, heads_a_b_2_size);
  printf(" %d %.4f %.4f %.4f\n", best, score[heads_a_b_offset], score[heads_a_b_offset + 1], score[heads_a_b_2_offset]);
}
END
  cc -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=off main.c -o main -lm
  if command -v c++ >/dev/null; then c++ -std=c++11 -Wall -Wextra -pedantic -Werror -x c++ -c heads.c -o heads.o; fi
  printf 'a,b,c,kind,width,height,depth\n3,5,2,0,0,0,0\n' >row.csv
  "$HEDDLE" predict r row.csv --json >row.json
  local of=predictions.0.heads
  [ "$(./main)" = "3 3 2 5 1 $(json_get $of.0.class <row.json) $(printf '%.4f %.4f %.4f' \
    $(json_get $of.1.outputs.0 $of.1.outputs.1 $of.2.outputs.0 <row.json))" ]
  grep -q '^ \*   score\[3\] to score\[4\]: a.b, of mse; heads_a_b_offset and heads_a_b_size$' heads.c
}

@test "compilers read the C file, as C++ too, and have nothing to warn of" {
  for network in cnn "$SRCDIR/tests/bits/mixed.yaml" "$SRCDIR/tests/bits/norm.yaml" \
    "$SRCDIR/tests/bits/activations.yaml"; do
    rm -rf r
    small_run "$network" r
    "$HEDDLE" export r --c net.c >out
    cc -std=c11 -Wall -Wextra -pedantic -Werror -Wno-overlength-strings -c net.c -o net.o
    if command -v c++ >/dev/null; then c++ -std=c++11 -Wall -Wextra -pedantic -Werror -x c++ -c net.c -o net.o; fi
    if command -v tcc >/dev/null; then tcc -c net.c -o net.o; fi
  done
}

@test "each operation as C has heddle's scores, bit for bit" {
  for network in $NETWORKS; do
    small_run "$SRCDIR/tests/bits/$network.yaml" $network
    same_scores $network $network
  done
  sed 's/: relu/: swish/; s/: tiny/: swish/' "$SRCDIR/tests/bits/tiny.yaml" >swish.yaml
  small_run swish.yaml swish
  same_scores swish swish
  small_run "$SRCDIR/tests/bits/resized.yaml" resized
  same_scores resized resized
  printf '%s\n' "model: heads" "input: [1, 28, 28]" "layers:" "  - c: {op: conv2d, out: 32, kernel: 7, stride: 7}" \
    "  - r: {op: rotary, heads: 4, key_heads: 2, base: 50}" \
    "  - a: {op: attention, heads: 4, key_heads: 2, causal: false, dropout: 0.1}" "  - f: {op: flatten}" \
    "  - l: {op: linear, out: 10}" >heads.yaml
  small_run heads.yaml heads
  same_scores heads heads
  printf '%s\n' "model: states" "input: [1, 28, 28]" "layers:" \
    "  - c: {op: conv2d, out: 8, kernel: [28, 4], stride: 4}" \
    "  - l: {op: lstm, hidden_size: 9, num_layers: 2}" "  - g: {op: gru, hidden_size: 6}" "  - f: {op: flatten}" \
    "  - o: {op: linear, out: 10}" >states.yaml
  small_run states.yaml states
  same_scores states states
  "$HEDDLE" export states --onnx net.onnx >out
  [ "$("$HEDDLE" digest states)" = "$("$HEDDLE" digest net.onnx)" ]
}

@test "the C file of a run on floats takes floats, of rows normalised by columns doubles" {
  echo label,a,b,c >points.csv
  for i in 1 2 3 4 5 6 7 8 9; do echo "$((i % 2)),$i.5,-$i,0.$i"; done >>points.csv
  printf 'model: points\ninput: [1, 1, 3]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 2}\n' \
    >points.yaml
  "$HEDDLE" train --model points.yaml --data points.csv --max-steps 3 --out r >out 2>err
  "$HEDDLE" export r --c points.c >out
  grep -q 'void points_scores(float score\[2\], const double pixel\[3\]' points.c
  for column in 'pixel\[0\]: a' 'pixel\[1\]: b' 'pixel\[2\]: c'; do grep -qx " \*   $column" points.c; done
  "$HEDDLE" train --model points.yaml --data points.csv --max-steps 3 --normalize channel --out s >out 2>err
  "$HEDDLE" export s --c points.c >out
  grep -q 'void points_scores(float score\[2\], const float pixel\[3\]' points.c
}

@test "the C file of a network with a norm names the digest of the run" {
  small_run "$SRCDIR/tests/bits/norm.yaml" norm
  "$HEDDLE" export norm --c net.c >out
  grep -q "weights $("$HEDDLE" digest norm)\.$" net.c
}

@test "names of columns cannot end the comment of a C file" {
  printf 'a,*/b,c\\,x/*,label\n' >odd.csv
  for i in 1 2 3 4 5 6 7 8 9; do echo "$i.5,${i#4},x*/$((i % 2)),$i,$((i % 3))"; done >>odd.csv
  "$HEDDLE" train --model mlp --data odd.csv --max-steps 3 --out r >out 2>err
  "$HEDDLE" export r --c odd.c >out
  grep -qF ' *   pixel[1]: \052/b, ' odd.c
  grep -qF ' *   pixel[2]: \052/b, 1 if it is empty, else 0' odd.c
  grep -qF ' *   pixel[4]: c\134, 1 if it is x\052/1, else 0' odd.c
  cc -std=c11 -Wall -Wextra -pedantic -Werror -c odd.c
}

@test "the programs of docs/export.md compile as printed, and run" {
  small_run cnn cnn
  "$HEDDLE" export cnn --c cnn.c >out
  { echo a,b,c,d,e,f,g,h,label; for i in 1 2 3 4 5 6 7 8 9; do echo "$i,2,$i.5,4,5,6,7,8,$((i % 3))"; done; } >rows.csv
  "$HEDDLE" train --model mlp --data rows.csv --max-steps 3 --out rows >out 2>err
  "$HEDDLE" export rows --c mlp.c >out
  # each block of C is a program: a file for each
  awk '/^```c$/ { n++; inside = 1; next } /^```/ { inside = 0 } inside { print > "program" n ".c" }' \
    "$SRCDIR/docs/export.md"
  cc -std=c99 -Wall -Werror -ffp-contract=off program1.c -o program1 -lm
  ./program1 >out
  [ "$(wc -l <out)" -eq 10 ]
  cc -std=c99 -Wall -Werror -ffp-contract=off program2.c -o program2 -lm
  ./program2 >out
  [ "$(wc -l <out)" -eq 3 ]
}

@test "an ONNX file has the weights of its run, and trains on from them" {
  need_onnx
  for model in simplenet cnn lenet5; do
    small_run $model $model
    "$HEDDLE" export $model --onnx $model.onnx >out
    [ "$("$HEDDLE" digest $model.onnx)" = "$("$HEDDLE" digest $model)" ]
    "$HEDDLE" eval $model --data few --json >before
    small_run $model.onnx $model-still --lr 0 --optimizer sgd --json
    [ "$(json_get test_loss <out)" = "$(json_get loss <before)" ]
    [ "$(digest_of out)" = "$("$HEDDLE" digest $model)" ]
  done
}

@test "linear layers over places, and layers called as the ends of a file are, come back from ONNX" {
  need_onnx
  printf '%s\n' "model: rows" "input: [1, 28, 28]" "layers:" "  - pixels: {op: gelu}" \
    "  - c: {op: conv2d, out: 8, kernel: [28, 4], stride: 4}" "  - p: {op: linear, out: 6}" "  - scores: {op: swish}" \
    "  - f: {op: flatten}" "  - o: {op: linear, out: 10}" >rows.yaml
  small_run rows.yaml rows
  "$HEDDLE" export rows --onnx rows.onnx >out
  "$HEDDLE" eval rows --data few --json >before
  small_run rows.onnx still --lr 0 --optimizer sgd --json
  [ "$(json_get test_loss <out)" = "$(json_get loss <before)" ]
  awk 'BEGIN { srand(3); for (i = 0; i < 3000; i++) printf "%c", 97 + int(rand() * 5) }' >t.txt
  printf '%s\n' "model: text" "input: [8]" "layers:" "  - e: {op: embedding, tokens: classes, out: 6}" \
    "  - c: {op: conv2d, kernel: 1, out: 7}" "  - o: {op: linear, out: classes}" >text.yaml
  "$HEDDLE" train --model text.yaml --data t.txt --max-steps 2 --batch 8 --out text --json >before
  "$HEDDLE" export text --onnx text.onnx >out
  "$HEDDLE" train --model text.onnx --data t.txt --max-steps 1 --batch 8 --lr 0 --optimizer sgd --out still2 --json >out
  [ "$(json_get test_loss <out)" = "$(json_get test_loss <before)" ]
  awk 'BEGIN { print "a,y"; for (i = 0; i < 40; i++) print i % 7 "," i }' >rows.csv
  printf '%s\n' "model: line" "input: [1]" "layers:" "  - f: {op: flatten}" "  - o: {op: linear, out: 1}" \
    "  - scores: {op: scale, factor: 0.5}" "loss: mse" >line.yaml
  "$HEDDLE" train --model line.yaml --data rows.csv --label y --target-scale standard --max-steps 2 --out line >out
  "$HEDDLE" export line --onnx line.onnx >out
  fails 1 summary --model line.onnx
  says "node '/scores/2' (Add): expected scores as the loss reads them"
  printf '%s\n' "model: heads" "input: [1]" "layers:" "  - f: {op: flatten}" "  - body: {op: linear, out: 8}" \
    "  - body.weight: {op: linear, out: 1}" "  - causal_mask: {op: linear, out: 1, from: body}" "loss:" \
    "  - body.weight: mse" "  - causal_mask: l1" >heads.yaml
  awk 'BEGIN { print "a,y,z"; for (i = 0; i < 40; i++) print i % 7 "," i "," i % 3 }' >rows.csv
  "$HEDDLE" train --model heads.yaml --data rows.csv --label y,z --target-scale none --max-steps 2 --out heads >out
  "$HEDDLE" export heads --onnx heads.onnx >out
  "$HEDDLE" summary --model heads.onnx >out
}

@test "the views of --tta are not exported, and export says so" {
  small_run simplenet r --tta mirror
  "$HEDDLE" export r --c r.c >out 2>err
  grep -qx 'heddle: note: the views of --tta mirror are not exported: the file computes one, the sample itself' err
  grep -q '^ \* .*the other ones of --tta mirror are not computed' r.c
  small_run simplenet plain
  "$HEDDLE" export plain --c plain.c >out 2>err
  no grep -q tta err plain.c
}

@test "pools whose last windows reach beyond the padding are written so that all programs agree, and come back" {
  need_onnx
  printf '%s\n' "model: pools" "input: [1, 28, 28]" "layers:" \
    "  - a: {op: avg_pool2d, kernel: 3, stride: 2, ceil_mode: true}" \
    "  - b: {op: avg_pool2d, kernel: 3, stride: 2, padding: 1, ceil_mode: true}" \
    "  - c: {op: avg_pool2d, kernel: [3, 2], stride: [2, 3], padding: 1, ceil_mode: true}" \
    "  - d: {op: max_pool2d, kernel: 2, stride: 2, padding: 1, ceil_mode: true}" \
    "  - f: {op: flatten}" "  - l: {op: linear, out: 10}" >pools.yaml
  small_run "$PWD/pools.yaml" r
  "$HEDDLE" export r --onnx net.onnx >out
  no grep -aqP 'count_include_pad\x18\x01' net.onnx
  [ "$(grep -aoP 'ceil_mode\x18\x01' net.onnx | wc -l)" -eq 3 ] # d needs none
  small_run net.onnx again --lr 0 --optimizer sgd
  for run in r again; do "$BUILDDIR/tests/golden/print_scores" $run few >$run.scores; done
  cmp r.scores again.scores
}

@test "with --fresh the network of an ONNX file is the one that was exported" {
  need_onnx
  for network in cnn "$SRCDIR/tests/bits/upsampled.yaml" "$SRCDIR/tests/bits/shared.yaml" \
    "$SRCDIR/tests/bits/norm.yaml"; do
    rm -rf r fresh
    small_run $network r
    "$HEDDLE" export r --onnx r.onnx >out
    small_run r.onnx fresh --fresh
    [ "$("$HEDDLE" digest r)" = "$("$HEDDLE" digest fresh)" ]
  done
}

@test "what is exported from a network of an ONNX file is the same network" {
  need_onnx
  for network in $NETWORKS; do
    small_run "$SRCDIR/tests/bits/$network.yaml" $network
    "$HEDDLE" export $network --onnx $network.onnx >out
    "$HEDDLE" summary --model $network.onnx >$network.found
    small_run $network.onnx again-$network --lr 0 --optimizer sgd
    "$HEDDLE" export again-$network --onnx again.onnx >out
    "$HEDDLE" summary --model again.onnx >again.found
    sed 1d $network.found >a
    sed 1d again.found >b
    cmp a b
  done
}

@test "a run from an ONNX file is resumed, certified and verified without it, or with it" {
  need_onnx
  small_run cnn r
  "$HEDDLE" export r --onnx net.onnx >out
  small_run net.onnx whole --max-steps 8
  small_run net.onnx part --max-steps 4
  "$HEDDLE" certify whole >out
  "$HEDDLE" verify whole >out
  mv net.onnx elsewhere.onnx
  "$HEDDLE" train --resume part --max-steps 8 >out 2>err
  [ "$("$HEDDLE" digest whole)" = "$("$HEDDLE" digest part)" ]
}

@test "networks of other programs" {
  need_onnx
  for file in "$SRCDIR"/tests/fuzz/corpus/onnx/*; do
    name=${file##*/}
    cp "$file" net.onnx
    case $name in
    no-*) fails 1 summary --model net.onnx ;;
    *) "$HEDDLE" summary --model net.onnx >out ;;
    esac
  done
  cp "$SRCDIR/tests/fuzz/corpus/onnx/no-operator" net.onnx
  fails 1 summary --model net.onnx
  says "net.onnx: node 'odd' (Bernoulli): expected an operator that heddle has, found Bernoulli"
  cp "$SRCDIR/tests/fuzz/corpus/onnx/no-data" net.onnx
  fails 1 train --model net.onnx
  says "net.onnx: node 'fc' (Gemm): expected 'fc.weight' inside the file, found it in another file"
}

# refused NAME NODE MESSAGE: the network of the corpus is refused by its node.
refused() {
  cp "$SRCDIR/tests/fuzz/corpus/onnx/$1" net.onnx
  fails 1 train --model net.onnx --data random:1x8x8 --max-steps 1
  says "net.onnx: node '$2: expected $3"
}

@test "operators that mean something else than the usual form, or have no room in it, are refused by their node" {
  need_onnx
  refused no-room-for-repeats "n_i' (Expand)" "a constant shape"
  refused no-room-for-channels "n_i' (Concat)" "pixels of at most 9 parts"
  refused no-room-for-linear "n_y' (MatMul)" "pixels of at most 9 parts"
  refused no-table-of-columns "n_e' (Gather)" "a table of tokens x channels, found 2 dimensions and axis 1"
  refused no-batch-behind-norm "n_c' (BatchNormalization)" "the batch as axis 0"
  refused no-batch-in-pool "n_c' (GlobalAveragePool)" "constant axes behind the batch"
  refused no-old-spreading "n_b' (Add)" "no attribute 'axis'"
  refused no-other-domain "n_f' (Reshape)" "a constant shape" # which a Concat of another domain makes
  refused no-bytes-less "n_s' (Sub)" "the input's bytes as floats"
  refused no-unscaling "/scores/2' (Add)" "scores as the loss reads them"
  refused no-far-pads "n_s' (Pad)" "constant pads"
  refused no-far-split "n_a' (Split)" "constant parts"
  refused no-far-batch "n_g' (Reshape)" "a constant shape"
  cp "$SRCDIR/tests/fuzz/corpus/onnx/number-beside" net.onnx # "block", which adds a number, beside "block.conv"
  "$HEDDLE" summary --model net.onnx >out
  grep -q 'parameters: 134, trainable: 130' out
  cp "$SRCDIR/tests/fuzz/corpus/onnx/classes-of-places" net.onnx # its last softmax is part of the loss
  "$HEDDLE" summary --model net.onnx >out
  no grep -q softmax out
}

@test "between an ONNX file's input and its first layer only a normalisation is left out" {
  need_onnx
  refused no-reciprocal "first' (Div)" "a product of a value and a number"
  refused no-integer "first' (Cast)" "an operator that heddle has"
  refused no-branch "first' (Mul)" "one normalisation of the input, which all layers read"
  refused no-negative "first' (Sub)" "x * a + b with a above 0"
  # Doubles that the first node converts are the data's floats; booleans are not.
  LC_ALL=C sed 's/\x08\x0b/\x08\x09/' "$SRCDIR/tests/fuzz/corpus/onnx/cast-double" >net.onnx
  fails 1 train --model net.onnx --data random:1x8x8
  says "net.onnx: expected the input 'x' as float32 or uint8, found type 9"
}

@test "an ONNX file's attributes are read, or refused by their node" {
  need_onnx
  refused no-training "norm' (BatchNormalization)" "training_mode 0"
  refused no-dropping "drop' (Dropout)" "training_mode false"
  refused no-attribute "relu' (Relu)" "no attribute 'upper'"
  refused no-norm-of-batch "norm' (LayerNormalization)" "a norm over whole samples, or some last axes"
  refused no-softmax-of-batch "soft' (Softmax)" "a softmax over an axis behind the batch"
  refused no-size "up' (ConvTranspose)" "a weight of sides"
}

@test "the data get the normalisation of an ONNX file, or are refused with another" {
  need_onnx
  cp "$SRCDIR/tests/fuzz/corpus/onnx/own" net.onnx
  own='[to_float, {normalise: {mean: 0.1307, std: 0.3081}}]'
  args="train --model net.onnx --data random:1x8x8 --max-steps 2 --batch 32"
  "$HEDDLE" $args --out r >out
  grep -qF "net.onnx normalises its input, (x - 0.1307) / 0.3081, so the data get --transforms '$own'" out
  grep -qF "$own" r/run.json
  "$HEDDLE" $args --out given --transforms "$own" >out
  grep -qF "net.onnx normalises its input, (x - 0.1307) / 0.3081, which is that of --transforms" out
  [ "$("$HEDDLE" digest r)" = "$("$HEDDLE" digest given)" ]
  "$HEDDLE" train --resume r --max-steps 4 >out
  "$HEDDLE" certify r >out
  "$HEDDLE" verify r >out
  fails 2 $args --transforms '[to_float, normalise]'
  says "heddle: --transforms: expected the normalisation of the first nodes of net.onnx, found a different one"
  fails 2 $args --eval-transforms '[to_float]' --transforms "$own"
  says "heddle: --eval-transforms: expected the normalisation"
  cp "$SRCDIR/tests/fuzz/corpus/onnx/own-unclear" net.onnx
  fails 2 $args
  says "if its pixels are from 0 to 255 give --transforms"
  small_run simplenet s
  "$HEDDLE" export s --onnx s.onnx >out
  small_run s.onnx again
  grep -q "s.onnx normalises its input, .*, which is that of the data" out
}

# The transforms that a run says its data get.
asked_for() { sed -n "s/.*so the data get --transforms '\(.*\)'.*/\1/p" "$1"; }

@test "dark bytes are told from numbers from 0 to 1 by what heddle's ONNX file says of its samples" {
  need_onnx
  local list
  small_run simplenet s --transforms '[to_float, {normalise: {mean: 0.001, std: 0.003}}]'
  "$HEDDLE" export s --onnx s.onnx >out
  args="--data random:1x28x28 --max-steps 1 --batch 32"
  "$HEDDLE" train --model s.onnx $args --out r >out
  list=$(asked_for out)
  case $list in '[to_float, {normalise: {mean: 0.001, std: 0.00'*) ;; *) false ;; esac
  LC_ALL=C sed 's/heddle\.elements/heddle.elementz/' s.onnx >old.onnx # as older versions wrote it
  fails 2 train --model old.onnx $args
  says "if its pixels are from 0 to 255 give --transforms '$list'"
  "$HEDDLE" train --model old.onnx $args --out o --transforms "$list" >out
  [ "$("$HEDDLE" digest r)" = "$("$HEDDLE" digest o)" ]
}

@test "a network of bytes takes the transforms that it asks for" {
  need_onnx
  cp "$SRCDIR/tests/fuzz/corpus/onnx/own-bytes" net.onnx
  args="train --model net.onnx --data random:1x8x8 --max-steps 1 --batch 32"
  "$HEDDLE" $args --out r >out
  "$HEDDLE" $args --out given --transforms "$(asked_for out)" >out
  grep -q "which is that of --transforms" out
  [ "$("$HEDDLE" digest r)" = "$("$HEDDLE" digest given)" ]
  fails 2 $args --transforms '[to_float, normalise]'
}

@test "data that number the classes of an ONNX file in another way are refused" {
  need_onnx
  table() { # NAMES...
    awk -v all="$*" 'BEGIN { n = split(all, name); print "a,b,class"
      for (i = 0; i < 60; i++) printf "%d,%d,%s\n", i % 7, i % 5, name[i % n + 1] }'
  }
  printf '%s\n' 'model: rows' 'input: [2]' 'layers:' '  - flat: {op: flatten}' '  - out: {op: linear, out: 3}' \
    >rows.yaml
  for names in "cat dog eel" "cat eel" "cow hen pig"; do
    table $names >"$(echo $names | tr -d ' ').csv"
  done
  "$HEDDLE" train --model rows.yaml --data catdogeel.csv --max-steps 5 --batch 16 --out named >out
  "$HEDDLE" export named --onnx named.onnx >out
  again="train --model named.onnx --max-steps 2 --batch 16 --data"
  "$HEDDLE" $again catdogeel.csv --out same >out
  "$HEDDLE" $again cowhenpig.csv --out others >out
  fails 2 $again cateel.csv --out fewer
  says "named.onnx: expected 'eel' as the class 2 of cateel.csv, whose score that is, found it as class 1"
  "$HEDDLE" $again cateel.csv --head auto --out head >out
  "$HEDDLE" $again cateel.csv --fresh --out fresh >out
}

@test "bad ONNX files are one line each" {
  need_onnx
  : >empty.onnx
  echo text >text.onnx
  head -c 300 probe.onnx >cut.onnx
  truncate -s 3G huge.onnx
  for file in empty text cut huge; do
    fails 1 summary --model $file.onnx
    says "$file.onnx: expected"
  done
  fails 1 summary --model none.onnx
  says "none.onnx: cannot read it"
  fails 1 train --model lenet5 --init probe.onnx
  nothing_half_written
}

@test "what cannot be exported is one line" {
  train --out r
  fails 2 export
  fails 2 export r
  says '--onnx FILE or --c FILE'
  fails 2 export r --onx f
  fails 2 export r r --c f
  mkdir empty
  fails 1 export empty --c f.c
  says 'expected a checkpoint'
  fails 1 export none --c f.c
  fails 1 export r --c none/f.c
  fails 1 export r --c /dev/full
  fails 1 export r --c empty
  cp -r r damaged
  chmod -R u+w damaged
  printf x | dd of=damaged/last/model.safetensors bs=1 seek=900 conv=notrunc 2>dd
  fails 1 export damaged --c f.c
  says checksum
  [ ! -e f.c ]
  nothing_half_written
}

@test "a format that lacks an operation does not hold up the other" {
  printf '%s\n' 'model: signal' 'input: [3, 14]' 'layers:' '  - r: {op: attention, heads: 1}' '  - f: {op: flatten}' \
    '  - l: {op: linear, out: 10}' >signal.yaml
  "$BUILDDIR/tests/bits/make_data" rows rows 64 32 3x1x14 10 classes
  "$HEDDLE" train --model signal.yaml --data rows --max-steps 1 --out r >log
  fails 1 export r --onnx net.onnx --c net.c --json
  says "layer 'r'" "writes as ONNX"
  [ "$(json_keys <out)" = c ]
  [ -s net.c ]
  [ ! -e net.onnx ]
  fails 1 export none --onnx net.onnx --c net.c
}

@test "the JSON of an export" {
  train --out r
  "$HEDDLE" export r --c net.c --json >out
  [ "$(json_get c <out)" = net.c ]
  [ "$(json_keys <out)" = c ]
}
