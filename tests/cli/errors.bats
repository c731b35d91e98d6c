# Errors: one line with what was expected and found, the right exit code, and nothing half-written.

load cli

@test "--version names the version, what was built and what was left out, as configure did" {
  run "$HEDDLE" --version
  [ "$status" -eq 0 ]
  [[ "${lines[0]}" == heddle\ [0-9]* ]]
  [ "${lines[1]}" = "built with  $(sed -n 's/^BUILT_WITH = //p' "$BUILDDIR/Makefile")" ]
  left_out=$(sed -n 's/^LEFT_OUT = //p' "$BUILDDIR/Makefile")
  [ "${lines[2]-}" = "${left_out:+left out    $left_out}" ]
  for format in .npz JPEG ONNX; do [[ "$output" == *$format\ * ]]; done
}

@test "--help, of each command too, goes to standard output" {
  for command in "" train eval predict digest doctor devices top; do
    "$HEDDLE" $command --help >out 2>err
    grep -q "^usage: heddle ${command:-COMMAND}" out
    [ ! -s err ]
  done
}

@test "an unknown command, and none, are wrong usage" {
  fails 2 weave
  says "found 'weave'" "train, launch, eval, predict, generate, summary, "
}

@test "without a command heddle shows how to begin, in a short screen on standard error" {
  for columns in 80 120; do
    code=0
    COLUMNS=$columns "$HEDDLE" >out 2>screen || code=$?
    [ "$code" -eq 2 ]
    [ ! -s out ]
    [ "$(wc -l <screen)" -le 24 ]
    awk -v most=$columns 'length > most { print; bad = 1 } END { exit bad }' screen
    grep -q '^usage: heddle COMMAND' screen
    grep -q 'heddle train ' screen
    grep -q 'heddle --help' screen
  done
  while read -r word command _; do # what it names exists
    [ "$word" = heddle ] || continue
    [ "$command" = --help ] || "$HEDDLE" "$command" --help >help
  done < <(grep -o '^  heddle [a-z-]*' screen)
}

@test "unknown options, operands and missing values are named" {
  refuses <<'END'
    2 train --bogus | found '--bogus' | heddle train --help
    2 train --json -x | found '-x'
    2 train --json=1 | found '--json=1'
    2 train stray | found 'stray'
    2 train --epochs | --epochs
    2 eval --out there | found '--out'
    2 eval
    2 eval a b
    2 digest
    2 digest a b | found 'b'
END
}

@test "a line break or a terminal's escape in an option does not reach the terminal" {
  fails 2 train --epochs $'1\n2'
  fails 2 train $'--bo\n\033[31mgus'
  no grep -q "$(printf '\033')" err
  fails 2 $'we\nave'
}

@test "a launcher's variables that give no rank are refused by name, RANK alone is none of them" {
  while read -r rank ranks name; do
    export "$rank" "$ranks"
    fails 2 train $TINY --out r
    says "$name"
    unset "${rank%%=*}" "${ranks%%=*}"
    [ ! -e r ]
  done <<END
RANK=2 WORLD_SIZE=2 RANK from 0 to 1
RANK=one WORLD_SIZE=2 in RANK, found 'one'
RANK=0 WORLD_SIZE=two in WORLD_SIZE, found 'two'
OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=2 in OMPI_COMM_WORLD_RANK, found 'x'
PMI_RANK=-1 PMI_SIZE=2 in PMI_RANK, found '-1'
SLURM_PROCID=1.5 SLURM_STEP_NUM_TASKS=2 in SLURM_PROCID, found '1.5'
END
  RANK=one train
  WORLD_SIZE=4 train
}

# Numeric options of `heddle train --help`, by the word that stands for their value.
numeric_options() {
  "$HEDDLE" train --help | sed -nE 's/^  --([a-z-]+) (N|X|K|STEPS|EPOCHS|S|F|B1,B2|N\|auto) .*/\1 \2/p' |
    grep -v '^schedule'
}

# What lies just outside; an option that --help shows and this list lacks fails the test.
out_of_range() {
  case $1 in
  epochs | keep) echo "-1 0 1000001" ;;
  keep-views) echo "-1 0 1001" ;;
  lr-scale) echo "-1e-9 1001" ;;
  head) echo "-1 0 65537" ;;
  max-steps | save-every | eval-every | log-every | sample-every) echo "-1 0 1000000000000001" ;;
  batch) echo "-1 0 1048577" ;;
  shards | accumulate) echo "-1 0 3 48 257 512" ;;
  seed) echo "-1 9007199254740993 99999999999999999999" ;;
  step-size) echo "-1 0 1000001" ;;
  val-split) echo "-1e-9 1.01" ;;
  patience | eval-epochs | save-epochs) echo "-1 0 1000001" ;;
  warmup) echo "-1 1000000000000001" ;;
  gamma) echo "-1e-9 10.1" ;;
  lr | weight-decay) echo "-1e-9 1000001" ;;
  momentum | label-smoothing) echo "-1e-9 1.01" ;;
  eps | alpha) echo "-1e-9 1.01" ;;
  momentum-decay) echo "-1e-9 1000.1" ;;
  clip-grad-norm) echo "-1 0 1e10" ;;
  betas) echo "-0.1,0.9 1,0.9 0.9,1 0.9 0.9,0.9,0.9 0.9, ,0.9" ;;
  threads) echo "-1 0 1025" ;;
  stages) echo "-1 0 33" ;;
  procs) echo "-1 0 1025" ;;
  stall-timeout) echo "-1 0 0.5 1000001" ;;
  workers) echo "-1 257" ;;
  prefetch-factor) echo "-1 0 257" ;;
  ns-steps) echo "-1 0 100" ;;
  start-factor | end-factor | peak | ema | lookahead-decay) echo "-1e-9 1.01" ;;
  lookahead) echo "-1 0 1000001" ;;
  categories) echo "-1 0 10001" ;;
  context) echo "-1 0 65536" ;;
  lookahead-power) echo "-1 17" ;;
  *) return 1 ;;
  esac
}

@test "help says the range of every number, and what every option does by default" {
  COLUMNS=1000 "$HEDDLE" train --help >help
  numeric_options | while read -r option _; do
    case $option in
    clip-grad-norm) grep -q -- "--$option .*, above 0," help ;;
    betas) grep -q -- "--$option .*, each from 0 to below 1 " help ;;
    *) grep -qE -- "^  --$option .*\(.*[0-9] (to [0-9.]+|or more)\)$" help ;;
    esac || { echo "no range of --$option"; false; }
  done
  sed -nE 's/^  --([a-z-]+) [A-Z].*/\1/p' help | while read -r option; do
    case $option in recipe | step-size | data-dir | resume | config) continue ;; esac
    grep -A1 -E -- "^  --$option " help | grep -q 'default' || { echo "no default of --$option"; false; }
  done
}

# own_numbers: "COMMAND OPTION", each command's own options with a number.
own_numbers() {
  local command
  for command in launch predict verify bisect sweep tune top get 'bench step' 'bench ranks' 'bench peers'; do
    "$HEDDLE" $command --help | sed -nE 's/^  (-[a-z], )?(--[a-z-]+) (N|X|K|S|N\|auto) .*/\2/p' |
      grep -v -e --threads -e --schedule-stages | sed "s/^/$command\t/"
  done
}

@test "help says the range of every number that a command has for itself, and out of it is refused with a remedy" {
  own_numbers >all
  [ "$(wc -l <all)" -ge 15 ]
  while IFS=$'\t' read -r command option; do
    COLUMNS=1000 "$HEDDLE" $command --help >help
    grep -qE -- "$option .*[(; ][0-9.e-]+ (to [0-9.]+|or more)\)$" help || { echo "$command $option"; false; }
    fails 2 $command $option -1
    says "expects" "found '-1'; "
  done <all
}

@test "a number out of its range, or none, is answered with what to write" {
  refuses <<'END'
    2 train --seed 9007199254740993 | lower it to 9007199254740992 or less
    2 train --batch 0 | raise it to 1 or more
    2 train --batch 1e3 | write it in digits alone
    2 train --batch many | write a number such as 64
    2 train --lr 0,1 | write a decimal point
    2 train --lr 1e-400 | too close to 0 for a double
    2 train --weight-decay 2e-346 | too close to 0 for a double
    2 train --threads 9999 | lower it to 1024 or less
    2 train --fold 3 | write 2/5
    2 predict r --index x | write one such as 0
    2 launch -n 2000 -- true | lower it to 1024 or less
END
}

@test "a command's own options come first, and those of train are left to train" {
  for command in tune sweep 'bench step'; do
    "$HEDDLE" $command --help >out
    [ "$(wc -l <out)" -le 32 ]
    grep -q '^and the options of heddle train: ' out
  done
  "$HEDDLE" data --help | grep -E '^  --' | head -n 1 | grep -q -- '--sheet'
  for option in tta label header missing categories; do
    for command in eval predict; do
      COLUMNS=1000 "$HEDDLE" $command --help | grep -q -- "^  --$option .*(default: as the run did"
    done
  done
  "$HEDDLE" predict --help >out
  grep -q '^FILE is a picture (.png or .jpg), a folder of pictures, a table (.csv;' out
  "$HEDDLE" --help | tr '\n' ' ' | grep -q '137 when a process of the run was killed'
}

@test "every numeric option is refused out of its range" {
  [ "$(numeric_options | wc -l)" -ge 17 ]
  numeric_options | while read -r option _; do
    values=$(out_of_range "$option") || { echo "no range is listed here for --$option"; false; }
    for value in $values; do
      fails 2 train $TINY --"$option" "$value"
      says "--$option" "'$value'" || says "--$option" "found $value"
    done
  done
  [ ! -e runs ]
}

@test "every numeric option is refused what is no number" {
  numeric_options | while read -r option _; do
    for value in nan 0x1 '1 '; do
      fails 2 train $TINY --"$option" "$value"
      says "--$option expects" "found '$value'"
    done
  done
  for option in betas threads; do
    fails 2 train $TINY --$option ''
    says "--$option expects" "found ''"
  done
  for option in epochs lr; do
    for value in NaN inf -inf 1e999 '' ' ' ' 1' 1,5 1e 1e+ 1_000 ١ two --; do
      fails 2 train $TINY --$option "$value"
      says "--$option expects" "found '$value'"
    done
  done
  for value in 1.5 1e3 1. 99999999999999999999; do
    fails 2 train $TINY --batch $value
  done
  [ ! -e runs ]
}

@test "unknown choices are answered with the known ones" {
  refuses <<'END'
    2 train --model weaver | simplenet | cnn | 'weaver'
    2 train --recipe soup | fastmnist|mnist-99 | 'soup'
    2 train --optimizer sgdx | sgd|adam|adamw|muon | 'sgdx'
    2 train --optimizer muon --adjust-lr much | none|original|match_rms_adamw | 'much'
    2 train --schedule sometimes
    2 train --arithmetic roman
END
  HEDDLE_ISA=mmx fails 1 train $TINY
  says HEDDLE_ISA "'mmx'" scalar
  [ ! -e runs ]
}

@test "settings that contradict each other are refused" {
  refuses <<'END'
    2 train --optimizer adam --momentum 0.9 | --momentum | sgd
    2 train --optimizer sgd --nesterov | --momentum
    2 train --optimizer sgd --betas 0.9,0.99 | --betas
    2 train --schedule step | --step-size
    2 train --schedule cosine --step-size 1 | --step-size | found cosine
    2 train --gamma 0.5 | --gamma | found const
    2 train --no-shuffle --sampler balanced | --no-shuffle | found balanced
    2 train --optimizer muon --betas 0.9,0.99 | --betas | found muon
    2 train --optimizer sgd --ns-steps 3 | --ns-steps | --optimizer muon
    2 train --optimizer sgd --normalize-weight | --normalize-weight | --optimizer muon
    2 train --optimizer sgd --adjust-lr original | --adjust-lr | --optimizer muon
    2 train --alpha 0.9 | --alpha | --optimizer rmsprop | found adamw
    2 train --centered | --centered | --optimizer rmsprop | found adamw
    2 train --optimizer adam --momentum-decay 0 | --momentum-decay | --optimizer nadam | found adam;
    2 train --optimizer adam --decoupled-weight-decay | --decoupled-weight-decay | --optimizer nadam | found adam;
    2 train --optimizer lion --eps 1e-3 | --eps | adam, adamw, rmsprop or nadam | found lion
    2 train --optimizer nadam --momentum 0.5 | --momentum | sgd, muon or rmsprop | found nadam
    2 train --schedule cosine --start-factor 0.1 | --start-factor | triangular
    2 train --schedule cosine --peak 0.1 | --peak | triangular
    2 train --schedule onecycle --end-factor 0.1 | --end-factor | cosine, linear or triangular
    2 train --lookahead-decay 0.1 | --lookahead-decay | --lookahead STEPS
    2 train --lookahead 5 --ema 0.9 | --ema | --lookahead
    2 train $TINY --epochs 1 --lookahead 61 | --lookahead | 60 steps | found 61
    2 train $TINY --optimizer muon | muon | found 'fc | of shape | optimizer: sgd
    2 train $TINY --parameters '[{match: "*.weight", ns_steps: 3}]' | ns_steps | muon | of adamw
    2 train $TINY --parameters '[{match: "*.bias", schedule: step}]' | step_size
    2 train $TINY --parameters '[{match: "*.bias", gamma: 0.5}]' | gamma for the schedule step | with const
    2 train $TINY --parameters '[{match: "*.bias", epochs: 1, warmup: 60}]' | a warmup of fewer than the 60 | found 60
    2 train $TINY --parameters '[{match: "*.bias", epochs: 0}]' | 'epochs' | '0'
    2 train $TINY --parameters '[{match: "*.bias", shedule: step}]' | did you mean 'schedule'?
    2 train --schedule onecycle --warmup 5 | --warmup | onecycle
    2 train $TINY --epochs 1 --warmup 60 | --warmup | 60 steps
    2 train $TINY --val-split 1e-6 | --val-split | of 3840
    2 train $TINY --val-split 1 | --val-split | of 3840
    2 train --batch 8 --shards 16 | 8 | 16 | --shards
    2 train --accumulate 32 --shards 16 | --accumulate
    2 train --batch 100000 --drop-last | --drop-last
END
  printf 'model: n\ninput: [3, 8, 8]\nlayers:\n  - ln: {op: layer_norm}\n  - flat: {op: flatten}\n'\
'  - fc: {op: linear, out: 10, bias: false}\n' >norm.yaml
  fails 2 train --model norm.yaml --data random:3x8x8 --optimizer muon
  says "found 'ln.weight' of shape 3x8x8 of a layer_norm" "{match: 'ln.weight', optimizer: sgd}"
  [ ! -e runs ]
}

@test "rules for parameters that make no sense are refused" {
  while IFS='|' read -r rules found; do
    fails 2 train $TINY --parameters "$rules"
    says --parameters "$found"
  done <<'EOF'
nothing|a list
{match: fc.weight, lr: 1}|a mapping
[fc.weight]|a single value
[{lr: 1}]|'match: PATTERN'
[{match: fc.weight}]|requires_grad, lr, weight_decay or another setting
[{match: [fc.weight], lr: 1}]|a list
[{match: '', lr: 1}]|nothing
[{match: fc.weight, learning_rate: 1}]|'learning_rate'
[{match: fc.weight, lr: -1}]|'-1'
[{match: fc.weight, lr: fast}]|'fast'
[{match: fc.weight, lr: nan}]|'nan'
[{match: fc.weight, weight_decay: 1e9}]|'1e9'
[{match: fc.weight, requires_grad: 0}]|'0'
[{match: fc.weight, requires_grad: [false]}]|a list
[{match: fc.weight, lr: 1, lr: 2}]|'lr' again
[{match: conv1.weight, lr: 1}]|'conv1.weight'; there are fc.weight, fc.bias
[{match: fc, lr: 1}]|'fc'; there are
[{match: fc.weight, lr: 1}|YAML
EOF
  fails 2 train $TINY --parameters '[{match: "*", requires_grad: false}]'
  says "every one frozen"
  printf 'lr: 0.1\nparameters:\n  - {match: fc.weight, lr: 1}\n  - {match: fc.weight}\n' >c.yaml
  fails 2 train $TINY --config c.yaml
  says c.yaml:4
  [ ! -e runs ]
}

@test "--config: the file and the line of a mistake are named" {
  fails 2 train $TINY --config none.yaml
  says none.yaml
  while IFS='|' read -r file first second third; do
    printf '%b' "$file" >c.yaml
    fails 2 train $TINY --config c.yaml
    says "$first" "$second" "$third"
  done <<'END'
lr: 0.1\n\nepoch: 3\n|c.yaml:3|'epoch'
lr: 0.1\nepochs: three\n|c.yaml:2|--epochs|'three'
lr: [0.1, 0.2]\n|c.yaml:1|lr|list
lr:\n  a: 1\n|c.yaml|lr|mapping
no-shuffle: maybe\n|c.yaml:1|no-shuffle|'maybe'
lr: 0.1\n\tepochs: 3\n|c.yaml:2
lr: "0.1\n|c.yaml:
- lr\n|c.yaml:1|mapping
lr: 0.1\nlr: 0.2\n|c.yaml:2|lr
max-steps: 1\nmax_steps: 2\n|c.yaml:2|max-steps
lr:\n|c.yaml:1|lr
END
  printf '\377\376\0\1' >c.yaml
  fails 2 train $TINY --config c.yaml
  fails 2 train $TINY --config .
  fails 2 train $TINY --config c.yaml --config c.yaml
  [ ! -e runs ]
}

@test "a model that is missing, malformed, or does not fit the data" {
  fails 1 train --model none.yaml
  says none.yaml
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - fc: {op: lineal, out: 10}\n' >m.yaml
  fails 1 train --model m.yaml
  says m.yaml:4 lineal
  printf 'model: m\ninput: [3, 32, 32]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >m.yaml
  fails 1 train --model m.yaml
  says m.yaml 1x28x28 3x32x32 digits
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 9}\n' >m.yaml
  fails 1 train --model m.yaml
  says m.yaml 10 9
  [ ! -e runs ]
}

@test "the error of missing data names the folders searched" {
  fails 1 train --data none
  says "'none'"
  fails 1 train --data mnist
  says mnist --data-dir HEDDLE_DATA "$HOME" train-images-idx3-ubyte
  mkdir empty
  fails 1 train --data empty
  says empty train-images-idx3-ubyte
  fails 1 train --data cifar10 --data-dir empty
  says cifar10 HEDDLE_DATA data_batch_1.bin
  head -c 100 /dev/zero >empty/train-images-idx3-ubyte
  fails 1 train --data empty
  says empty/
  [ ! -e runs ]
}

# The whole of a folder as one checksum.
fingerprint() {
  (cd "$1" && find . \( -type f -exec cksum {} + \) -o -type l -printf '%p %l\n' | sort | cksum)
}

@test "--out of a run that is there, or of what is no folder, leaves it untouched" {
  train --out r
  was=$(fingerprint r)
  fails 2 train $TINY --out r
  says r "--resume r"
  train --out other
  fails 2 train --resume other --max-steps 60 --out r
  says "not the resumed one"
  [ "$(fingerprint r)" = "$was" ]
  echo text >file
  fails 1 train $TINY --out file
  says file
  fails 1 train $TINY --out file/below
  [ "$(cat file)" = text ]
}

@test "--out without permission" {
  mkdir -m 555 locked
  touch locked/x 2>/dev/null && skip "permissions do not hold this user"
  fails 1 train $TINY --out locked/r
  says locked permission
  cd locked
  code=0
  "$HEDDLE" train $TINY >../out 2>../err || code=$?
  [ "$code" -eq 1 ]
  [ "$(wc -l <../err)" -eq 1 ]
  grep -q '^heddle: .*ermission' ../err
  cd ..
  [ -z "$(ls -A locked)" ]
  mkdir r
  chmod 555 r
  fails 1 train $TINY --out r
  [ -z "$(ls -A r)" ]
}

@test "standard output that cannot be written is a failure" {
  [ -c /dev/full ] || skip "there is no /dev/full"
  train --out r
  for command in "train $TINY" "digest r" "eval --json r" "doctor --json" "topo" "train --help" --help --version; do
    code=0
    "$HEDDLE" $command >/dev/full 2>err || code=$?
    [ "$code" -eq 1 ]
    [ "$(wc -l <err)" -eq 1 ]
    grep -q '^heddle: expected .* standard output' err
  done
}

@test "a reader that has enough ends a command silently, as SIGPIPE does" {
  train --out r
  mkfifo pipe
  exec 8<>pipe
  exec 7>pipe
  exec 8<&- # no reader is left
  for command in "eval --json r" topo "train --help" --help "summary --plan"; do
    code=0
    "$HEDDLE" $command >&7 2>err || code=$?
    [ "$code" -eq 141 ] || { echo "$command: $code"; return 1; }
    [ ! -s err ]
  done
}

@test "no help text is cut: each parenthesis in it is closed" {
  "$HEDDLE" get --help | tr -s ' \n' ' ' | grep -qF '(default: the known mirrors); may be repeated --dir'
  for command in $("$HEDDLE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    "$HEDDLE" "$command" --help >help
    [ "$(tr -dc '(' <help | wc -c)" -eq "$(tr -dc ')' <help | wc -c)" ] || { echo "$command"; return 1; }
  done
}

@test "mistyped names are answered with the nearest, files with what to do" {
  printf 'a,color\n1,red\n2,blue\n3,red\n4,blue\n' >c.csv
  tr , '\t' <c.csv >t.tsv
  train --out r
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - a: {op: flaten}\n' >m.yaml
  fails 1 train --data minst
  says "did you mean mnist?"
  fails 2 get mnsit
  says "did you mean mnist?"
  fails 1 summary --model m.yaml
  says "m.yaml:4: " "did you mean 'flatten'?"
  fails 2 train --learning-rate 1
  says "did you mean --lr?"
  echo "learning_rate: 1" >c.yaml
  refuses <<'END'
    2 train --config c.yaml | did you mean 'lr'?
    2 report r --out page.html | did you mean --output?
    1 train --data c.csv --label colr | did you mean 'color'?
    1 train --data c.csv --label x | name one with --label: a, color
END
  fails 1 train --data t.tsv
  says "t.tsv: " "separated by tabs; write commas"
  fails 2 train --lr x
  says "from 0 to 1000000,"
  fails 2 train $TINY --init r --out other
  says "use --init r/last/model.safetensors"
  fails 1 train --model cnn --data c.csv --label color
  says "the built-in model cnn, which takes 1x28x28; use --model mlp"
  HEDDLE_LOG=foo fails 2 train $TINY
  says "found 'foo'; unset it"
}

@test "one of a thing is no plural" {
  train --max-steps 1 --out one
  grep -q '^trained  *1 step in ' out
}

@test "topo and devices know one size of this machine's memory" {
  [ "$("$HEDDLE" topo --json | json_get memory_bytes)" = "$("$HEDDLE" devices --json | json_get memory_bytes)" ]
}

@test "a damaged model.safetensors is refused" {
  train --out r
  file=r/last/model.safetensors
  cp $file good
  size=$(wc -c <good)
  for keep in 0 7 8 100 $((size - 1)); do
    head -c "$keep" good >$file
    fails 1 digest r
    says model.safetensors
  done
  cat good good >$file
  fails 1 digest r
  for at in 0 7 8 20; do # the header's length, and its first bytes of JSON
    cp good $file
    printf '\377' | dd of=$file bs=1 seek="$at" conv=notrunc status=none
    fails 1 digest r
    says model.safetensors
  done
  was=$(fingerprint r)
  fails 1 eval r
  says model.safetensors
  fails 1 train --resume r --max-steps 60
  says model.safetensors
  [ "$(fingerprint r)" = "$was" ]
  rm $file
  for command in "digest r" "eval r" "train --resume r"; do
    fails 1 $command
    says checkpoint
  done
}

@test "a tensor of another name or shape is refused" {
  train --out r
  sed -i 's/fc\.weight/fc.weighs/' r/last/model.safetensors
  fails 1 eval r
  says model.safetensors fc.weight
  fails 1 train --resume r --max-steps 60
  says model.safetensors fc.weight
  sed -i 's/fc\.weighs/fc.weight/; s/\[10,784\]/[784,10]/' r/last/model.safetensors
  fails 1 eval r
  says model.safetensors 10x784 784x10
  fails 1 train --model mlp --init r/last/model.safetensors
  says model.safetensors
  [ ! -e runs ]
}

@test "a damaged state.safetensors stops resuming alone" {
  train --out r
  cp r/last/state.safetensors good
  for damage in "rm" "truncate -s -1" "sed -i s/exp_avg_sq/exp_avg_sx/" "sed -i s/best_score/best_scorx/" \
    "sed -i s/stale_epochs/stale_epochx/"; do
    cp good r/last/state.safetensors
    $damage r/last/state.safetensors
    fails 1 train --resume r --max-steps 60
    says state.safetensors
  done
  [ "$("$HEDDLE" digest r)" = "$DIGEST" ]
  "$HEDDLE" eval r >out
}

# flip FILE AT: changes one bit.
flip() {
  local was
  was=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\$(printf %o $((was ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "one flipped bit in a tensor's bytes is noticed" {
  train --out r
  cp -r r good
  flip r/last/state.safetensors $(($(wc -c <good/last/state.safetensors) - 5))
  fails 1 train --resume r --max-steps 60
  says r/step-50/state.safetensors checksum
  "$HEDDLE" eval r >out
  cp good/last/state.safetensors r/last
  flip r/last/model.safetensors $(($(wc -c <good/last/model.safetensors) - 5))
  for command in "eval r" "train --resume r --max-steps 60"; do
    fails 1 $command
    says r/step-50/model.safetensors checksum
  done
  cp good/last/model.safetensors r/last
  "$HEDDLE" train --resume r --max-steps 60 >out
}

@test "OMP_NUM_THREADS that is no number of threads" {
  for value in 1025 100000; do
    OMP_NUM_THREADS=$value fails 2 train $TINY
    says OMP_NUM_THREADS "'$value'" --threads
  done
  OMP_NUM_THREADS=1025 train --threads 1
}

@test "a damaged run.json is refused" {
  train --out r
  for damage in '' 'garbage' '{"settings"' '{}' '[]' '{"settings": {}, "model_yaml": 3}' \
    '{"settings": {}, "model_yaml": "model: m"}' "$(sed 's/"batch": "64"/"batch": 64/' r/run.json)"; do
    printf '%s' "$damage" >r/last/run.json
    fails 1 eval r
    says r/step-50/run.json
    fails 1 train --resume r --max-steps 60
    says r/step-50/run.json
  done
  sed 's/"lr": "0.001"/"lr": "-1"/' r/run.json >r/last/run.json
  fails 1 train --resume r --max-steps 60
  says run.json --lr -1
  rm r/last/run.json
  fails 1 eval r
  says run.json
  fails 1 train --resume r --max-steps 60
  says run.json
}

@test "a checkpoint that is not there" {
  mkdir empty
  for path in none empty /dev/null; do
    fails 1 eval $path
    says $path
    fails 1 digest $path
    says $path
    fails 1 train --resume $path
    says $path
  done
  [ -z "$(ls -A empty)" ]
  fails 1 train --resume none
  says "--resume none: expected a run's folder or a checkpoint, found none"
  train --out r --max-steps 5 --save-every 2
  rm -r r/step-5 # as a copy that is not whole
  for each in "train --resume" eval digest; do
    fails 1 $each r
    says "r/step-4"
  done
  rm r/last # as a copy without links
  fails 1 train --resume r
  says "r/step-4"
  sed -i '$d' r/history.jsonl # of a run that has not ended
  fails 2 certify r
  says "has not" "--resume r"
  train --resume r/step-4
  rm -r r
  train --out r --max-steps 5
  rm -r r/step-5 r/last r/best # as after a kill before the first checkpoint
  sed -i '$d' r/history.jsonl
  fails 1 train --resume r
  says "--out r" "saved no checkpoint"
  fails 2 certify r
  says "--out r" "saved no checkpoint"
  train --out r --max-steps 5
  "$HEDDLE" certify r >/dev/null
  "$HEDDLE" verify r >/dev/null
}

@test "a run of another version of the arithmetic is resumed only if the user accepts it" {
  train --out r
  file=r/last/state.safetensors
  header=$(od -An -tu8 -N8 $file)
  at=$(grep -ao '"arithmetic_version":{[^}]*' $file | grep -o '\[[0-9]*,' | tail -n 1 | tr -d '[,')
  printf '\377' | dd of=$file bs=1 seek=$((8 + header + at)) conv=notrunc status=none
  fails 1 train --resume r --max-steps 60
  sum=$(sed -n 's/.*in run.json, \([0-9a-f]*\), found \([0-9a-f]*\);.*/s,\1,\2,/p' err)
  [ -n "$sum" ]
  sed -i "$sum" r/last/run.json
  was=$(fingerprint r)
  fails 2 train --resume r --max-steps 60
  says "--resume r" "version 6" "version 255" --accept-arithmetic
  [ "$(fingerprint r)" = "$was" ]
  "$HEDDLE" train --resume r --max-steps 60 --accept-arithmetic >out
  grep -q "version 6 of the arithmetic, after version 255: the digest is a new one" out
  "$HEDDLE" train --resume r --max-steps 70 --json >out
  [ "$(json_get arithmetic_version <out)" = 6 ]
}

@test "weights that an earlier version stored in another order are converted, which is said" {
  cat >flat.yaml <<END
model: flat
input: [1, 28, 28]
layers:
  - c: {op: conv2d, out: 3, kernel: 5, stride: 8}
  - f: {op: flatten}
  - b: {op: batch_norm}
  - l: {op: linear, out: 10}
END
  "$HEDDLE" train --model flat.yaml --data "$FEW" --max-steps 5 --out r >/dev/null
  "$HEDDLE" eval r >out 2>err
  [ ! -s err ]
  sed -i 's/"arithmetic_version": 6/"arithmetic_version": 5/' r/last/run.json
  for command in "eval r" "predict r --index 0" "export r --c r.c"; do
    "$HEDDLE" $command >out 2>err
    [ "$(wc -l <err)" = 1 ]
    grep -q "^heddle: note: .*version 5 of the arithmetic.*PyTorch's order" err
  done
  "$HEDDLE" train --model flat.yaml --data "$FEW" --max-steps 1 --init r/last/model.safetensors --out s >out
  grep -q "^version 5 of the arithmetic.*PyTorch's order" out
  cp r/last/model.safetensors alone.safetensors
  "$HEDDLE" train --model flat.yaml --data "$FEW" --max-steps 1 --init alone.safetensors --out t >out
  ! grep -q "PyTorch's order" out
}

@test "--resume with another experiment is refused, and the setting named" {
  train --out r --lr 0.01 --clip-grad-norm 5
  was=$(fingerprint r)
  while read -r option value; do
    fails 2 train --resume r --max-steps 60 --"$option" $value
    says "--resume r" "${option/-size/}"
  done <<'EOF'
model mlp
recipe fastmnist
batch 32
batch-size 32
shards 8
precision bf16
seed 1
no-shuffle
sampler balanced
on-error skip
drop-last
optimizer sgd
lr 0.02
betas 0.8,0.999
eps 1e-7
weight-decay 0.5
schedule onecycle
clip-grad-norm 4
eval-epochs 2
init r/last/model.safetensors
EOF
  printf 'lr: 0.02\n' >c.yaml
  fails 2 train --resume r --max-steps 60 --config c.yaml
  says "lr 0.01" "found 0.02"
  [ "$(fingerprint r)" = "$was" ]
}

@test "--resume with the same experiment in other words, or on another layout, goes on" {
  train --out r --lr 0.01 --clip-grad-norm 5 --max-steps 20
  printf 'no-shuffle: false\nlr: 1e-2\nepochs: 7\nprecision: f32\n' >c.yaml
  "$HEDDLE" train --resume r --max-steps 50 --config c.yaml --batch 64 --clip-grad-norm 5.0 --threads 1 \
    --accumulate 2 >out
  resumed=$(digest_of out)
  train --lr 0.01 --clip-grad-norm 5
  [ "$resumed" = "$DIGEST" ]
}

@test "--resume of a schedule that uses --epochs is held to them" {
  train --out r --schedule onecycle --epochs 2
  fails 2 train --resume r --epochs 3 --max-steps 60
  says "epochs 2" "found 3"
  "$HEDDLE" train --resume r --epochs 2 --max-steps 60 >out
  rm -r r
  train --out r --schedule step --step-size 1 --warmup 7
  "$HEDDLE" train --resume r --epochs 7 --max-steps 60 >out
  fails 2 train --resume r --gamma 0.2
  says "gamma 0.1" "found 0.2"
  fails 2 train --resume r --warmup 8
  says "warmup 7" "found 8"
  printf "parameters: [{match: '*.bias', schedule: linear}]\n" >c.yaml
  for key in "'schedule'" '"schedule"' 'schedule '; do
    "$HEDDLE" models simplenet >"$key.yaml"
    printf "parameters: [{match: '*.bias', %s: linear}]\n" "$key" >>"$key.yaml"
    train --model "$key.yaml" --epochs 2 --out "$key"
    fails 2 train --resume "$key" --epochs 3 --max-steps 60
    says "epochs 2" "found 3"
  done
  for option in "--lookahead 5" "--config c.yaml"; do
    rm -r r
    train --out r $option --epochs 2
    fails 2 train --resume r --epochs 3 --max-steps 60
    says "epochs 2" "found 3"
  done
}

@test "a file of weights whose name is no UTF-8 is refused, since a record could not have it" {
  train --out r --max-steps 1
  cp r/last/model.safetensors $'w\xe9.safetensors'
  fails 1 train $TINY --init $'w\xe9.safetensors' --out s
  says "in UTF-8" "rename the file"
}

@test "--resume on other data is refused by checksum" {
  mkdir data
  for part in train-images:3 train-labels:1 t10k-images:3 t10k-labels:1; do
    rank=${part#*:} file=data/${part%:*}-idx${part#*:}-ubyte
    printf '\0\0\10\'"$rank"'\0\0\0\200' >"$file"
    if [ "$rank" = 3 ]; then
      printf '\0\0\0\34\0\0\0\34' >>"$file"
      seq 100000 | head -c $((128 * 784)) >>"$file"
    else
      head -c 127 /dev/zero >>"$file"
      printf '\1' >>"$file"
    fi
  done
  train --out r --data data --max-steps 2
  mv data moved
  "$HEDDLE" train --resume r --data moved --max-steps 3 >out
  printf '\1' | dd of=moved/t10k-labels-idx1-ubyte bs=1 seek=50 conv=notrunc status=none
  fails 2 train --resume r --data moved --max-steps 4
  says "test labels" moved
  fails 2 train --resume r --data digits --max-steps 4
  says "training samples" digits
}

# Weight decay of 1e12 a step: the weights overflow in step 4.
EXPLODING="--optimizer sgd --lr 1e6 --weight-decay 1e6"

@test "a loss that is not finite stops the run; the last good checkpoint survives" {
  fails 1 train $TINY $EXPLODING --out r --save-every 1 --keep 9
  says "step 4" NaN --lr
  nothing_half_written
  [ "$(readlink r/last)" = step-3 ]
  [ "$(cd r && echo step-*)" = "step-1 step-2 step-3" ]
  fails 1 train --resume r
  says "step 4" "lower --lr" "--init r/last/model.safetensors"
  # A gradient of 0, of a column of one value, by a root of 0.
  { echo a,b,label; for i in {1..40}; do echo "$i,7,$((i % 2))x"; done; } >t.csv
  fails 1 train --model linear --data t.csv --eps 0 --out z
  says "step 1" "--eps above 0"
  [ "$(readlink r/last)" = step-3 ]
  "$HEDDLE" train $TINY --init r/last/model.safetensors --lr 0 --weight-decay 0 >out
  [ "$(digest_of out)" = "$("$HEDDLE" digest r)" ]
  train $EXPLODING --max-steps 3
  [ "$("$HEDDLE" digest r)" = "$DIGEST" ]
}

@test "a loss that is not finite before any checkpoint leaves the folder free for another try" {
  fails 1 train $TINY $EXPLODING --out r
  says "nothing was saved"
  nothing_half_written
  [ ! -e r/last ]
  train --out r
}

@test "--precision bf16 says where it may be slower than float32; another precision is refused" {
  HEDDLE_ISA=scalar train --precision bf16 --out r
  message=$(cat err)
  says "warning: --precision bf16" "without AMX" "--precision f32"
  fails 2 train $TINY --precision f16 --out other
  says "f32|bf16"
}
