# docs/from-pytorch.md cannot go stale: its commands are run, in their order, over a small data set; its files, losses,
# options and functions are those there are.

load cli

setup_page() {
  PAGE=$SRCDIR/docs/from-pytorch.md
  # A file stands in a block whose first line names it.
  awk '/^```yaml/ { inside = 1; next } /^```/ { inside = 0; file = "" }
    inside && /^# / { file = $2 } file { print >file }' "$PAGE"
  [ -s net.yaml ]
  [ -s run.yaml ]
}

# The commands, a line each: those in `...` and those that are lines of an indented block; but what needs the network.
commands() {
  grep -Eo '`heddle [^`]*`|^    heddle .*' "$PAGE" | sed 's/^ *//; s/`//g' | grep -v '^heddle get '
}

@test "every command runs" {
  setup_page
  for name in mnist fashion; do
    mkdir -p "data/$name"
    "$BUILDDIR/tests/bits/make_idx" "data/$name" 138 50
  done
  export HEDDLE_DATA=$PWD/data
  commands >list
  [ "$(wc -l <list)" -ge 30 ]
  # What PyTorch would have saved.
  "$HEDDLE" train --data mnist --epochs 1 --out other >out
  cp other/last/model.safetensors weights.safetensors
  while read -r command <&3; do
    eval "\"\$HEDDLE\" ${command#heddle }" >out 2>err </dev/null || { echo "$command: $(cat err)"; false; }
  done 3<list
}

@test "every option exists" {
  setup_page
  for command in train eval predict summary digest; do
    "$HEDDLE" "$command" --help
  done >help
  for option in $(grep -Eo -- '(`| )--[a-z][a-z-]*' "$PAGE" | grep -Eo -- '--[a-z-]*' | grep -v nproc-per-node |
    sort -u); do
    grep -Eq -- "$option( |$|\))" help || { echo "the page has $option, the commands have not"; false; }
  done
}

@test "every loss is one" {
  setup_page
  grep -Eo '`loss: [^`]*`' "$PAGE" | tr -d '`' | sort -u >losses
  [ "$(wc -l <losses)" -ge 8 ]
  while read -r loss; do
    scores=3
    case $loss in *pos_weight*) scores=1 ;; esac
    printf 'model: m\ninput: [1, 2, 2]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: %s}\n%s\n' $scores \
      "$loss" >m.yaml
    "$HEDDLE" summary --model m.yaml >out || { echo "$loss"; false; }
  done <losses
}

@test "every operation is one" {
  setup_page
  for op in $(grep -Eo '\{op: [a-z0-9_]*' "$PAGE" | sed 's/.* //' | sort -u); do
    grep -qE "^(\|.*|.*signal.*)\`$op\`" "$SRCDIR/docs/model-files.md" ||
      { echo "the page has $op, there is none"; false; }
  done
}

@test "every function is declared" {
  setup_page
  for name in $(grep -Eo 'hd_[a-z_]*' "$PAGE" | sort -u); do
    grep -Eq "\b$name\(" "$SRCDIR"/include/heddle/*.h || { echo "the page has $name, the headers have not"; false; }
  done
}
