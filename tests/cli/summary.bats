# heddle summary: the table, its JSON, and what it refuses.

load cli

keys="layers params trainable macs memory_bytes"

@test "cnn has 225,034 parameters, and PyTorch's multiply-adds" {
  "$HEDDLE" summary >out
  grep -Eq '^total  +225,034  +2,631,040  +5,312,608  +10,171,296$' out
  grep -qx 'parameters: 225,034, trainable: 225,034' out
  grep -Eq '^conv2  +conv2d  +64x11x11  +18,496  +2,230,272  +4,460,544  +8,921,088$' out
  grep -Eq '^fc1  +linear  +128  +204,928  +204,800 ' out
}

@test "the table stays within 100 columns, and its lines are of one width" {
  for model in simplenet mlp cnn fastmnist mnist-99 cifar-94 cifar-resnet; do
    "$HEDDLE" summary --model $model >out
    awk 'length > 100 { exit 1 }' out
    [ "$(sed -n '3,/^total/p' out | awk '{ print length }' | sort -u | wc -l)" -eq 1 ]
  done
}

@test "--json: exactly the promised keys, and the table's numbers" {
  "$HEDDLE" summary --model cnn --json >out
  [ "$(wc -l <out)" -eq 1 ]
  [ "$(json_keys <out)" = "$keys" ]
  [ "$(json_get params trainable macs <out)" = "225034 225034 2631040" ]
  [ "$(json_get layers.0.name layers.0.op layers.0.shape <out)" = "conv1 conv2d [32,26,26]" ]
  [ "$(json_get layers.0.params layers.0.macs layers.0.flops_fwd layers.0.flops_bwd <out)" \
    = "320 194688 389376 389376" ]
  [ "$(json_get layers.9.name layers.9.shape <out)" = "fc2 [10]" ]
}

@test "a table is read as train reads it: --missing and --categories" {
  printf 'a,b,label\n1,x,0\n2,y,1\n3,z,0\n,x,1\n5,y,0\n6,z,1\n' >t.csv
  "$HEDDLE" summary --model mlp --data t.csv >out
  fails 1 summary --model mlp --data t.csv --missing refuse
  says "'a'"
  fails 1 summary --model mlp --data t.csv --categories 2
  says "'b'"
}

@test "--input replaces the model's input, for any data" {
  "$HEDDLE" summary --model mlp --input 3x32x32 --json >out
  [ "$(json_get layers.0.shape layers.1.macs <out)" = "[3072] 393216" ]
  "$HEDDLE" summary --model cnn --input 13x32x32 --json >out
  [ "$(json_get layers.0.macs <out)" = $((30 * 30 * 9 * 13 * 32)) ]
}

@test "the memory follows batch, threads and optimizer" {
  memory() { "$HEDDLE" summary --model cnn --json "$@" | json_get memory_bytes; }
  small=$(memory --batch 32 --threads 1 --optimizer sgd)
  [ "$(memory --batch 1024 --threads 1 --optimizer sgd)" -gt "$small" ]
  [ "$(memory --batch 32 --threads 8 --optimizer sgd)" -gt "$small" ]
  [ "$(memory --batch 32 --threads 1 --optimizer adam)" -gt "$small" ]
  local mean=$(memory --batch 32 --threads 1 --optimizer rmsprop)
  [ "$(memory --batch 32 --threads 1 --optimizer rmsprop --centered)" -gt "$mean" ]
  [ "$(memory --batch 1024 --threads 1 --optimizer sgd --accumulate 8)" \
    -lt "$(memory --batch 1024 --threads 1 --optimizer sgd)" ]
}

@test "what is frozen is not trainable and costs nothing backward, and no state is kept for it" {
  "$HEDDLE" summary --json >all
  "$HEDDLE" summary --json --parameters '[{match: "conv*", requires_grad: false}, {match: fc1.weight, requires_grad: '\
'false}]' >out
  [ "$(json_get params trainable <out)" = "225034 $((225034 - 320 - 18496 - 204800))" ]
  [ "$(json_get layers.0.flops_bwd layers.3.flops_bwd layers.7.flops_bwd layers.9.flops_bwd <out)" = "0 0 0 5120" ]
  [ "$(($(json_get memory_bytes <all) - $(json_get memory_bytes <out)))" -gt $((6 * 4 * 223000)) ] # 2 + 1 of each state
  fails 2 summary --parameters '[{match: "conv3*", requires_grad: false}]'
  says "'conv3*'" "conv1.weight, conv1.bias, conv2.weight"
}

@test "costs of groups count the channels of a group alone" {
  printf 'model: d\ninput: [4, 8, 8]\nlayers:\n  - deep: {op: conv2d, out: 4, kernel: 3, groups: 4}\n  - flat: {op: '\
'flatten}\n' >d.yaml
  "$HEDDLE" summary --model d.yaml --json >out
  [ "$(json_get params macs <out)" = "40 1296" ]
}

@test "--plan prints what a step and an evaluation do" {
  "$HEDDLE" summary --model simplenet --plan >out
  [ "$(grep -c '^phase 0: shards$' out)" = 2 ]
  grep -q '^1   linear_dw         fc.dw\[10x784\], fc.db\[10\] <- flat\[784\], loss.dx\[10\]$' out
  grep -qx 'param fc.weight      10x784       chunks 5 of 2 rows, gradient deferred' out
  "$HEDDLE" summary --model mlp --plan --stages 2 | grep -q '^  linear  .*stage 1$'
  fails 2 summary --plan --json
  says "--plan expects a summary without --json"
}

@test "what is wrong is one line" {
  refuses <<'END'
    2 summary --input 28x28 | --input expects CHANNELSxHEIGHTxWIDTH, for example 1x28x28, found '28x28'
    2 summary --input 1x28x28x
    2 summary --input -1x28x28
    2 summary --input 0x28x28 | found '0x28x28'
    2 summary --input 1x28x0
    2 summary --input 99999999999x28x28
    2 summary --input 9999999x28x28 | 1 to 1048576 channels | found 9999999x28x28
    1 summary --input 1x2x2 | cnn.yaml:5: layer 'conv1' | found 1x2x2
    2 summary cnn | found 'cnn'; use --model NAME
    2 summary --epochs 3
    2 summary --batch 8 --shards 16
    2 summary --model nowhere
END
}

@test "a recurrent layer gets at least six samples at a time: shards of three go through the network in pairs" {
  values() {
    "$HEDDLE" summary --model char-lstm --threads 1 "$@" | awk '/activations and their gradients/ { print $5 }'
  }
  alone=$(values --batch 3 --shards 1)
  pairs=$(values --batch 48 --shards 16)
  awk "BEGIN { exit !($pairs > 1.9 * $alone && $pairs < 2.1 * $alone) }"
}
