#!/bin/bash
# TAP: a table of hostile input, one case a row. Each must end with the row's exit code and exactly one line of error
# that tells what was expected and found and holds the row's words, and must leave every file and folder as it was.
#
#   case_ NAME CODE 'PREPARE' 'ARGUMENTS' WORD...
#
# PREPARE runs in a folder that holds `run`, a trained run, `data`, the data set it was trained on, and good.png; what
# stands there afterwards is what must not change. T stands for a tiny run's options.
[ -n "${BASH_VERSION-}" ] || exec bash "$0"
samples="96 32"
. "$SRCDIR/tests/examples_lib.sh"
unset HEDDLE_ISA HEDDLE_DATA OMP_NUM_THREADS NO_COLOR
export HOME=$folder LC_ALL=C
printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >m.yaml
"$HEDDLE" train --model m.yaml --data data --max-steps 2 --batch 8 --lr 0.01 --out run >train.out 2>&1 ||
  { cat train.out; echo "Bail out! no run"; exit 1; }
cp run/wrong.png good.png
rm train.out
mkdir "$folder.cases"
trap 'chmod -R u+rwx "$folder.cases"; rm -rf "$folder" "$folder.cases"' EXIT

# Every name, its kind and rights, a file's bytes, a link's target.
state() { find . -printf '%p %y %m %l\n' -type f -readable -exec cksum {} + | sort; }

# put FILE OFFSET BYTES: writes bytes (as for printf) over those that are there.
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# layers LINE...: m.yaml with these layers.
layers() {
  { printf 'model: m\ninput: [1, 28, 28]\nlayers:\n'; printf '  - %s\n' "$@"; } >m.yaml
}

# What is wrong with the outcome: nothing, if it is as it must be.
judge() { # CODE WORD...
  local want=$1 word
  shift
  [ "$code" = "$want" ] || echo "expected exit code $want, found $code"
  [ "$(wc -l <"$err")" = 1 ] || echo "expected one line, found $(wc -l <"$err")"
  [[ $message == "heddle: "*expect*found* || $message == "heddle: "*"; "* ]] ||
    echo "expected 'heddle: ... expected ..., found ...', or a remedy behind ';'"
  [[ $message != *[[:cntrl:]]* ]] || echo "expected no control character"
  for word; do
    [[ $message == *"$word"* ]] || echo "expected '$word' in it"
  done
  [ "$was" = "$(state)" ] || { echo "expected every file as it was:"; diff <(echo "$was") <(state); }
}

case_() { # NAME CODE PREPARE ARGUMENTS WORD...
  local name=$1 want=$2 prepare=$3 arguments=$4 err=$folder.cases/err faults was message code=0
  local T="--model simplenet --data data --batch 8 --max-steps 2"
  shift 4
  rm -rf "$folder.cases/case"
  cp -a "$folder" "$folder.cases/case"
  cd "$folder.cases/case" || exit 1
  eval "$prepare"
  was=$(state)
  eval "set -- $arguments -- \"\$@\""
  local args=()
  while [ "$1" != -- ]; do
    args+=("$1")
    shift
  done
  shift
  timeout 120 "$HEDDLE" "${args[@]}" >"$folder.cases/out" 2>"$err" || code=$?
  message=$(cat "$err")
  faults=$(judge "$want" "$@")
  count=$((count + 1))
  if [ -z "$faults" ]; then echo "ok $count - $name"; else echo "not ok $count - $name"; fi
  [ -z "$faults" ] || { echo "$faults"; echo "$message"; } | sed 's/^/# /'
  [ -z "${HD_SHOW-}" ] || echo "# $code $message"
  cd "$folder" || exit 1
  chmod -R u+rwx "$folder.cases/case"
}

# The command line.
case_ "an unknown command" 2 '' 'weave' "'weave'"
case_ "an unknown option" 2 '' 'train --bogus' "'--bogus'"
case_ "a stray operand" 2 '' 'train stray' "'stray'"
case_ "an option without its value" 2 '' 'train --epochs' --epochs
case_ "a value for a flag" 2 '' 'train --json=1' "--json"
case_ "a terminal's escape in an option" 2 '' 'train --lr $(printf "\033[31m1\n2")' --lr
case_ "no epochs" 2 '' 'train $T --epochs 0' --epochs "'0'"
case_ "a version of an epoch" 2 '' 'train $T --epochs 1.5.1' --epochs "'1.5.1'"
case_ "a number beyond 64 bits" 2 '' 'train $T --max-steps 99999999999999999999' --max-steps
case_ "a negative batch" 2 '' 'train $T --batch -1' --batch
case_ "an infinite learning rate" 2 '' 'train $T --lr inf' --lr "'inf'"
case_ "a learning rate that is not a number" 2 '' 'train $T --lr nan' --lr "'nan'"
case_ "one beta" 2 '' 'train $T --betas 0.9' --betas
case_ "a beta of one" 2 '' 'train $T --betas 0.9,1' --betas
case_ "no threads" 2 '' 'train $T --threads 0' --threads
case_ "too many threads" 2 '' 'train $T --threads 100000' --threads
case_ "shards that are no power of two" 2 '' 'train $T --shards 3' "power of two"
case_ "more shards than samples" 2 '' 'train $T --shards 16' 8 16
case_ "more parts than shards" 2 '' 'train $T --shards 4 --accumulate 8' --accumulate
case_ "a batch that no epoch fills" 2 '' 'train $T --batch 128 --drop-last' --drop-last 96
case_ "momentum for Adam" 2 '' 'train $T --momentum 0.9' --momentum sgd
case_ "Nesterov without momentum" 2 '' 'train $T --optimizer sgd --nesterov' --momentum
case_ "a schedule of steps without their size" 2 '' 'train $T --schedule step' --step-size
case_ "a warm-up of what warms up" 2 '' 'train $T --schedule onecycle --warmup 5' --warmup
case_ "nothing left to train on" 2 '' 'train $T --val-split 1' --val-split
case_ "an unknown optimizer" 2 '' 'train $T --optimizer adamx' "'adamx'"
case_ "an unknown placement" 2 '' 'train $T --placement everywhere' "'everywhere'"
case_ "a list of CPUs that is none" 2 '' 'train $T --cpus 0-' --cpus
case_ "CPUs that no machine has" 2 '' 'train $T --cpus 100000' --cpus 100000
case_ "rules that are no list" 2 '' 'train $T --parameters no' --parameters
case_ "an unknown recipe" 2 '' 'train --data data --recipe soup' "'soup'"
case_ "an unknown model" 2 '' 'train --data data --model weaver' "'weaver'" cnn
case_ "an unknown instruction set" 1 'export HEDDLE_ISA=mmx' 'train $T' HEDDLE_ISA "'mmx'"
unset HEDDLE_ISA
case_ "OMP_NUM_THREADS beyond any machine" 2 'export OMP_NUM_THREADS=100000' 'train $T' OMP_NUM_THREADS
unset OMP_NUM_THREADS

# Settings from a file.
settings() { case_ "settings: $1" 2 "printf -- '$2' >c.yaml" 'train $T --config c.yaml' "${@:3}"; }
case_ "settings: no file" 2 '' 'train $T --config none.yaml' none.yaml
case_ "settings: a folder" 2 'mkdir c.yaml' 'train $T --config c.yaml' c.yaml
case_ "settings: more than a megabyte" 2 'head -c 2000000 /dev/zero | tr "\0" "#" >c.yaml' 'train $T --config c.yaml' \
  c.yaml
settings "an unknown name" 'lr: 1\nepoch: 3\n' c.yaml:2 "'epoch'"
settings "a name twice" 'lr: 1\nlr: 2\n' c.yaml:2 lr
settings "two names of one option" 'batch: 1\nbatch-size: 2\n' c.yaml:2 batch
settings "a list" '- lr\n' c.yaml:1 mapping
settings "no value" 'lr:\n' c.yaml:1 lr
settings "a value out of range" 'seed: -1\n' c.yaml:1 seed
settings "a mapping for a number" 'lr: {a: 1}\n' c.yaml:1 lr
settings "a tab" 'lr: 1\n\tbatch: 2\n' c.yaml:2
settings "a quote that does not end" 'lr: "1\n' c.yaml:
settings "an alias" 'lr: &a 1\nseed: *a\n' c.yaml:
settings "a tag" 'lr: !!float 1\n' c.yaml:1
settings "two documents" 'lr: 1\n---\nseed: 1\n' c.yaml:
settings "bytes that are no text" '\377\376\000\001' c.yaml
settings "brackets without end" "$(printf '[%.0s' {1..500})" c.yaml

# Model files.
model() { case_ "model: $1" 1 "$2" 'train --model m.yaml --data data --max-steps 2' "${@:3}"; }
case_ "model: no file" 1 '' 'train --model none.yaml' none.yaml
case_ "model: a folder" 1 'mkdir d.yaml' 'train --model d.yaml' d.yaml
model "an empty file" ': >m.yaml' m.yaml:1
model "no layers" 'sed -i "3,\$d" m.yaml; echo "layers: []" >>m.yaml' m.yaml:3 layers
model "no input" 'sed -i /input/d m.yaml' m.yaml input
model "an input of four numbers" 'sed -i "s/input.*/input: [1, 1, 28, 28]/" m.yaml' m.yaml:2 "a list of 4"
model "a signal of many channels" 'sed -i "s/input.*/input: [28, 28]/" m.yaml' m.yaml "the input 1x28x28"
model "an input without rows" 'sed -i "s/input.*/input: [1, 0, 28]/" m.yaml' m.yaml:2 "'0'"
model "an unknown key" 'echo "extra: 1" >>m.yaml' m.yaml:6 "'extra'"
model "an unknown operation" 'layers "fc: {op: lineal, out: 10}"' m.yaml:4 "'lineal'"
model "no operation" 'layers "fc: {out: 10}"' m.yaml:4 op
model "an unknown setting" 'layers "fc: {op: linear, out: 10, color: red}"' m.yaml:4 "'color'"
model "a required setting left out" 'layers "fc: {op: linear}"' m.yaml:4 "'out: N'"
model "a negative number of outputs" 'layers "fc: {op: linear, out: -1}"' m.yaml:4 "'-1'"
model "a stride of zero" 'layers "c: {op: conv2d, out: 4, kernel: 3, stride: 0}"' m.yaml:4 "'0'"
model "a window larger than the image" 'layers "c: {op: conv2d, out: 4, kernel: 31}"' m.yaml:4 1x28x28
model "groups that do not divide" 'layers "c: {op: conv2d, out: 4, kernel: 3, groups: 3}"' m.yaml:4 3
model "a layer's name twice" 'layers "a: {op: flatten}" "a: {op: linear, out: 10}"' m.yaml:5 "'a'"
model "a layer's name with a blank" 'layers "a b: {op: flatten}"' m.yaml:4 "'a b'"
model "a layer that reads itself" 'layers "a: {op: relu, from: a}"' m.yaml:4 "'a'"
model "a sum of one" 'layers "a: {op: add, from: [input]}"' m.yaml:4 two
model "a sum of two shapes" 'layers "c: {op: conv2d, out: 4, kernel: 3}" "a: {op: add, from: [c, input]}"' m.yaml:5 \
  4x26x26 1x28x28
model "a layer that is not read" 'layers "a: {op: relu}" "f: {op: flatten, from: input}" "l: {op: linear, out: 10}"' \
  m.yaml:4 "'a'"
model "nothing to train" 'layers "f: {op: flatten}"' m.yaml:4 weights
model "a value too large" \
  'layers "c: {op: conv2d, out: 1000000, kernel: 3, padding: 1}" "f: {op: flatten}" "l: {op: linear, out: 10}"' m.yaml:4
model "weights too large for any memory" \
  'layers "f: {op: flatten}" "a: {op: linear, out: 1048576}" "b: {op: linear, out: 1048576}" "l: {op: linear, out: 10}"'
model "fewer scores than classes" 'layers "f: {op: flatten}" "l: {op: linear, out: 9}"' m.yaml 10 9
model "another input than the data's" 'sed -i "s/input.*/input: [3, 32, 32]/" m.yaml' m.yaml 3x32x32 1x28x28
model "rounds without end" 'layers "a: {repeat: 1000, layers: [b: {repeat: 1000, layers: [c: {op: relu}]}]}"' m.yaml:4
model "no rounds" 'layers "a: {repeat: 0, layers: [c: {op: relu}]}"' m.yaml:4 "'0'"
model "an unknown loss" 'echo "loss: hinge" >>m.yaml' m.yaml:6 "'hinge'"
model "weights of other classes" 'echo "loss: {op: cross_entropy, weight: [1, 2]}" >>m.yaml' m.yaml:6 10 2
model "a weight below zero" 'echo "loss: {op: cross_entropy, weight: -1}" >>m.yaml' m.yaml:6
model "smoothing beyond one" 'echo "loss: {op: cross_entropy, label_smoothing: 1.5}" >>m.yaml' m.yaml:6 "'1.5'"
model "a rule that no parameter matches" 'echo "parameters: [{match: nothing, lr: 1}]" >>m.yaml' m.yaml:6 nothing
model "a rule without a pattern" 'echo "parameters: [{lr: 1}]" >>m.yaml' m.yaml:6 match
model "a rule that sets nothing" 'echo "parameters: [{match: fc*}]" >>m.yaml' m.yaml:6
case_ "model: everything frozen" 2 'echo "parameters: [{match: \"*\", requires_grad: false}]" >>m.yaml' \
  'train --model m.yaml --data data' frozen requires_grad
model "shared weights of another shape" 'layers "f: {op: flatten}" "a: {op: linear, out: 20}" \
  "b: {op: linear, out: 10, share: a}"' m.yaml:6 share
model "dropout of everything and more" 'layers "d: {op: dropout, p: 1.5}" "f: {op: flatten}" "l: {op: linear, out: '\
'10}"' \
  m.yaml:4 "'1.5'"
model "layers of aliases" 'layers "&a b: {op: flatten}" "*a"' m.yaml:4

# Data sets.
idx() { case_ "IDX: $1" 1 "$2" 'train $T' "${@:3}"; }
images=data/train-images-idx3-ubyte labels=data/train-labels-idx1-ubyte
case_ "IDX: an unknown data set" 1 '' 'train --data none' "'none'"
case_ "IDX: MNIST that is not there" 1 '' 'train --data mnist' mnist --data-dir
idx "an empty folder" 'rm data/*' data
idx "another magic number" "put $images 3 '\1'" $images 0x00000803
idx "a header cut short" "truncate -s 9 $images" $images
idx "an empty file" ": >$images" $images
idx "samples cut off" "truncate -s -1 $images" $images
idx "bytes behind the samples" "echo >>$images" $images
idx "no samples" "put $images 4 '\0\0\0\0'" $images
idx "sizes beyond any memory" "put $images 4 '\377\377\377\377\377\377\377\377\377\377\377\377'" $images
idx "fewer labels than images" "truncate -s -1 $labels; put $labels 4 '\0\0\0\137'" 96 95
idx "images where labels should be" "cp $images $labels" $labels
idx "test images of another shape" "put data/t10k-images-idx3-ubyte 8 '\0\0\0\16\0\0\0\70'" t10k-images 28x28 14x56
idx "a folder where a file should be" "rm $images; mkdir $images" $images
idx "gzip data cut short" "gzip $images; truncate -s -9 $images.gz" $images.gz
idx "gzip data that are none" "mv $images $images.gz" $images.gz
idx "a gzip file with bytes behind it" "gzip $images; echo >>$images.gz" $images.gz
case_ "data: a folder of nothing" 1 'mkdir e' 'train --data e' e 'folder of IDX files'
case_ "data: a file of no format" 1 '' 'train --data good.png' "'good.png'"
case_ "data: the path of a folder that is not there" 1 '' 'train --data no/such' "'no/such'"

# A folder of NPY files with 10 samples of 1x28x28 and one wrong.
npy() { # FILE DICTIONARY BYTES
  mkdir -p n
  { printf '\223NUMPY\1\0\166\0%-117s\n' "$2"; head -c "$3" /dev/zero; } >"n/$1.npy"
}
arrays() {
  local part
  for part in train test; do
    npy x_$part "{'descr': '|u1', 'fortran_order': False, 'shape': (10, 28, 28)}" 7840
    npy y_$part "{'descr': '|u1', 'fortran_order': False, 'shape': (10,)}" 10
  done
  eval "$1"
}
npy_case() { case_ "NPY: $1" 1 "arrays '$2'" 'train --data n --model simplenet --max-steps 2' "${@:3}"; }
npy_case "no labels" 'rm n/y_train.npy' n y_train
npy_case "a file cut short" 'truncate -s -1 n/x_train.npy' n/x_train.npy 7840 7839
npy_case "an empty file" ': >n/x_train.npy' n/x_train.npy
npy_case "objects" 'sed -i "s/|u1\(.\)/|O\1 /" n/x_train.npy' n/x_train.npy 'Python objects'
npy_case "a shape beyond any memory" 'sed -i "s/(10, 28, 28)}  /(9999999999, 28)}/" n/x_train.npy' n/x_train.npy
npy_case "a header that is none" 'sed -i "s/descr/decsr/" n/x_train.npy' n/x_train.npy
npy_case "labels of another count" 'sed -i "s/(10,)/(9,) /" n/y_train.npy; truncate -s -1 n/y_train.npy' \
  n/y_train.npy 10 9
npy_case "classes of pixels in one set" 'cp n/x_train.npy n/y_train.npy' n 'training set alone'
npy_case "classes of pixels of other pictures" \
  'cp n/x_train.npy n/y_train.npy; sed -i "s/28, 28/56, 14/" n/y_train.npy' n/y_train.npy 28x28 10x56x14
npy_case "a pipe" 'rm n/x_test.npy; mkfifo n/x_test.npy' n/x_test.npy
case_ "NPZ: a file that is none" 1 'cp good.png a.npz' 'train --data a.npz' a.npz
case_ "NPZ: no file at all" 1 '' 'train --data a.npz' a.npz
case_ "CIFAR: files missing" 1 'mkdir c; head -c 3073 /dev/zero >c/data_batch_1.bin' 'train --data c' c/data_batch_2.bin
case_ "CIFAR: half a record" 1 'mkdir c; head -c 3000 /dev/zero >c/data_batch_1.bin' 'train --data c' \
  c/data_batch_1.bin 3073
csv() { case_ "CSV: $1" 1 "$2 >t.csv" 'train --data t.csv --model simplenet' "${@:3}"; }
csv "an empty file" ':' t.csv found
csv "a row too short" "printf '1,2,0\n3,0\n'" t.csv:2
csv "decimal commas" "printf '1.5,2,0\n\"2,5\",3,1\n'" t.csv:2 'decimal point'
csv "semicolons" "printf 'a;b;c\n1,5;2,5;0\n'" t.csv commas
csv "no number" "printf '1,2,0\n1,x,0\n'" t.csv:2 "'x'"
csv "a binary file" "head -c 5000 \"\$HEDDLE\"" t.csv
pictures() { case_ "pictures: $1" 1 "mkdir -p p/cat p/dog; cp good.png p/cat/1.png; cp good.png p/dog/1.png; $2" \
  'train --data p --model simplenet' "${@:3}"; }
pictures "an empty class" 'mkdir p/emu' p/emu
pictures "another file" 'echo >p/cat/list.txt' p/cat/list.txt
pictures "a picture cut short" 'truncate -s 200 p/dog/1.png' p/dog/1.png
pictures "an empty picture" ': >p/dog/1.png' p/dog/1.png
pictures "the start of a JPEG" "printf '\377\330\377\340' >p/dog/2.jpg" p/dog/2.jpg
pictures "a pipe" 'mkfifo p/dog/2.png' p/dog/2.png
pictures "a link to nowhere" 'ln -s none p/dog/2.png' p/dog/2.png
pictures "another input than the model's" '' 'expected the input 3x'
idx "a pipe" "rm $images; mkfifo $images" $images

# Checkpoints.
case_ "checkpoint: none" 1 '' 'eval none' none
case_ "checkpoint: an empty folder" 1 'mkdir e' 'digest e' e
case_ "checkpoint: a file that is none" 1 '' 'digest good.png' good.png
case_ "checkpoint: last leads nowhere" 1 'ln -sfn step-9 run/last' 'eval run' run
case_ "checkpoint: weights cut short" 1 'truncate -s -1 run/last/model.safetensors' 'digest run' model.safetensors
case_ "checkpoint: weights are empty" 1 ': >run/last/model.safetensors' 'eval run' model.safetensors
case_ "checkpoint: a header longer than the file" 1 \
  "put run/last/model.safetensors 0 '\377\377\377\377\377\377\377\177'" \
  'digest run' model.safetensors
case_ "checkpoint: a header that is no JSON" 1 "put run/last/model.safetensors 8 '['" 'digest run' model.safetensors
case_ "checkpoint: a tensor of another type" 1 'sed -i s/F32/I16/ run/last/model.safetensors' 'digest run' I16
case_ "checkpoint: a tensor of another name" 1 'sed -i s/fc.weight/fc.weighs/ run/last/model.safetensors' 'eval run' \
  fc.weight
case_ "checkpoint: offsets that overlap" 1 'sed -i "s/\[31360,31400\]/[31356,31396]/" run/last/model.safetensors' \
  'digest run' \
  model.safetensors
case_ "checkpoint: a flipped bit" 1 "put run/last/model.safetensors 999 '\\252\\125'" 'eval run' model.safetensors \
  checksum
case_ "checkpoint: no weights" 1 'rm run/last/model.safetensors' 'eval run' run
case_ "checkpoint: no record" 1 'rm run/last/run.json' 'eval run' run.json
case_ "checkpoint: a record that is no JSON" 1 'echo no >run/last/run.json' 'eval run' run.json
case_ "checkpoint: a record of brackets" 1 "printf '[%.0s' {1..9999} >run/last/run.json" 'eval run' run.json
case_ "checkpoint: a record without a model" 1 'sed -i s/model_yaml/model_yamx/ run/last/run.json' 'eval run' run.json
case_ "checkpoint: settings that are numbers" 1 'sed -i "s/\"lr\": \"0.01\"/\"lr\": 0.01/" run/last/run.json' \
  'train --resume run --max-steps 4 --data data' run.json
case_ "weights to start from: none" 1 '' 'train $T --init none.safetensors' none.safetensors
case_ "weights to start from: a picture" 1 '' 'train $T --init good.png' good.png
case_ "weights to start from: another network's" 1 '' \
  'train --model mlp --data data --init run/last/model.safetensors' \
  model.safetensors

# Going on.
resume() { case_ "resume: $1" "$2" "$3" "train --resume run --data data --max-steps 4 $4" "${@:5}"; }
resume "another model" 2 '' '--model mlp' model mlp
resume "another learning rate" 2 '' '--lr 0.02' 'lr 0.01' 0.02
resume "another batch" 2 '' '--batch 16' batch 16
resume "another seed" 2 '' '--seed 7' seed 7
resume "into another run" 2 'cp -r run other' '--out other' other
resume "other data" 2 "put $images 99 '\1\2\3'" '' 'training samples'
resume "no state" 1 'rm run/last/state.safetensors' '' state.safetensors
resume "a state cut short" 1 'truncate -s -1 run/last/state.safetensors' '' state.safetensors
resume "a state of another optimizer" 1 'sed -i s/exp_avg_sq/exp_avg_sx/ run/last/state.safetensors' '' \
  state.safetensors

# Where results go.
case_ "output: a run that is there" 2 '' 'train $T --out run' run --resume
case_ "output: a file" 1 '' 'train $T --out good.png' good.png
case_ "output: below a file" 1 '' 'train $T --out good.png/run' good.png
if [ "$(id -u)" != 0 ]; then
  case_ "output: a folder that is locked" 1 'mkdir -m 555 locked' 'train $T --out locked/run' locked ermission
  case_ "IDX: a file that is locked" 1 "chmod 0 $images" 'train $T' $images ermission
else
  for name in "output: a folder that is locked" "IDX: a file that is locked"; do
    result 0 "$name # SKIP root may write and read everything"
  done
fi

# Pictures.
case_ "picture: none" 1 '' 'predict run none.png' none.png
case_ "picture: nothing to predict" 2 '' 'predict run'
case_ "picture: a folder" 1 'mkdir d.png' 'predict run d.png' d.png
case_ "picture: an empty file" 1 ': >e.png' 'predict run e.png' e.png
case_ "picture: a text" 1 'echo text >t.png' 'predict run t.png' t.png
case_ "picture: cut short" 1 'truncate -s -40 good.png' 'predict run good.png' good.png
case_ "picture: a wrong checksum" 1 "put good.png 29 '\\1\\2\\3\\4'" 'predict run good.png' good.png
case_ "picture: sides beyond any memory" 1 'tail -c +2 "$SRCDIR/tests/fuzz/corpus/png/huge" >good.png' \
  'predict run good.png' good.png
case_ "an item beyond the last" 2 '' 'predict run --index 32' 32
case_ "an item that is no number" 2 '' 'predict run --index first' first

# Summaries.
case_ "summary: an input of two numbers" 2 '' 'summary --input 28x28' --input
case_ "summary: an input that does not fit" 1 '' 'summary --model lenet5 --input 1x2x2' conv2 6x1x1
case_ "summary: an unknown model" 2 '' 'summary --model weaver' "'weaver'"
echo "1..$count"
