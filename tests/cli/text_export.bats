# Networks of texts in other programs: heddle export --c and --onnx, and back. tests/onnx.sh compares with ONNX Runtime.

load cli

LEVEL=-O0 # takes a compiler half the time
[ "${HD_DEPTH:-1}" -lt 2 ] || LEVEL=-O2

# A text of 4,000 characters, some of them of two bytes, with quotes and question marks that C reads as something else.
setup_file() {
  awk 'BEGIN { srand(3); split("the cat sat on a mat é ü \"why??/\" and \\ran", word, " ")
    for (i = 0; i < 900; i++) printf "%s%s", word[1 + int(rand() * 11)], i % 9 ? " " : "\n" }' \
    >"$BATS_FILE_TMPDIR/t.txt"
}

# narrow MODEL: its file with a quarter of the channels and two blocks, which compilers take a tenth of the time for.
narrow() {
  awk '/repeat:/ { sub(/[0-9]+$/, 2) }
    match($0, /out: [0-9]+/) {
      $0 = substr($0, 1, RSTART + 4) substr($0, RSTART + 5, RLENGTH - 5) / 4 substr($0, RSTART + RLENGTH)
    }
    { print }' "$SRCDIR/data/models/$1.yaml" >"$1.yaml"
}

# small_run MODEL RUN ARGS...
small_run() {
  local model=$1 run=$2
  shift 2
  "$HEDDLE" train --model "$model" --data "$BATS_FILE_TMPDIR/t.txt" --max-steps 12 --batch 8 --lr 0.01 --out "$run" \
    "$@" >out 2>err || { cat err; return 1; }
}

# same_text RUN: the program of its C file writes what heddle generate does, whatever is asked.
same_text() {
  local asked
  "$HEDDLE" export "$1" --c "$1.c" >out
  cc $LEVEL -Wall -Wextra -Werror -ffp-contract=off -DHEDDLE_MAIN "$1.c" -o "$1.exe" -lm
  while read -r asked; do
    eval "\"\$HEDDLE\" generate $1 $asked" >wanted
    eval "./$1.exe $asked" >found
    cmp wanted found || { echo "$asked"; return 1; }
  done <<'END'
--length 150
--length 40 --temperature 0
--length 60 --temperature 0.7 --top-k 3 --seed 9007199254740992
--length 60 --top-p 0.6 --seed 11
--length 60 --temperature 1.5 --top-k 5 --top-p 0.9 --seed 3
END
}

@test "networks of texts as C write heddle's texts, bit for bit" {
  for model in gpt-nano llama-nano sums; do
    narrow $model
    small_run $model.yaml $model
    same_text $model
    grep -q 'kept = 0 is always' $model.c
  done
  for prompt in 'the cat é' '"why??/"' "$(printf 'a mat\n')" \
    'the cat sat on a mat the cat sat on a mat the cat sat on a mat the cat sat'; do
    "$HEDDLE" generate gpt-nano --prompt "$prompt" --length 70 >wanted
    ./gpt-nano.exe --prompt "$prompt" --length 70 >found
    cmp wanted found
  done
}

@test "bytes and numbers as tokens, and a network that cannot keep anything, as C" {
  narrow sums
  small_run sums.yaml bytes --tokens bytes
  same_text bytes
  printf 'model: both-ways\ninput: [12]\nlayers:\n  - e: {op: embedding, tokens: classes, out: 16}\n' >both.yaml
  printf '  - q: {op: linear, out: 48}\n  - a: {op: attention, heads: 2, causal: false}\n' >>both.yaml
  printf '  - l: {op: linear, out: classes}\n' >>both.yaml
  small_run both.yaml both
  same_text both
  grep -q 'kept is not read' both.c
}

@test "compilers have nothing to warn of in the C file of a text, as C++ neither" {
  for model in gpt-nano llama-nano; do
    narrow $model
    small_run $model.yaml r
    "$HEDDLE" export r --c net.c >out
    cc -std=c99 -Wall -Wextra -pedantic -Werror -Wno-overlength-strings -DHEDDLE_MAIN -c net.c -o net.o
    if command -v c++ >/dev/null; then
      c++ -std=c++11 -Wall -Wextra -pedantic -Werror -x c++ -DHEDDLE_MAIN -c net.c -o net.o
    fi
    if command -v clang >/dev/null; then clang -Wall -Wextra -Werror -DHEDDLE_MAIN -c net.c -o net.o; fi
    rm -rf r
  done
}

# A model's name is a word of the C file, which has words of its own: text_generator, op_pixels.
@test "a network has any name, as C too" {
  for name in text op main 'a/b */ é' 9lives; do
    printf "model: '%s'\ninput: [8]\nlayers:\n  - e: {op: embedding, tokens: classes, out: 4}\n" "$name" >named.yaml
    printf '  - l: {op: linear, out: classes}\n' >>named.yaml
    small_run named.yaml named
    same_text named
    rm -rf named
  done
  grep -q net_9lives_generate named.c
}

@test "the program of a text refuses what it does not know" {
  narrow sums
  small_run sums.yaml r
  "$HEDDLE" export r --c net.c >out
  cc -O1 -ffp-contract=off -DHEDDLE_MAIN net.c -o net -lm
  for asked in "--prompt Q" "--length -1" "--length 1.5" "--top-p 0" "--top-p 1.1" "--top-k 0" "--temperature -1" \
    "--temperature x" "--seed 1e17" "--seeds 1" "--length" "7"; do
    code=0
    ./net $asked >found 2>err || code=$?
    [ "$code" -eq 2 ] || { echo "code $code: $asked"; return 1; }
    [ -s err ]
    [ ! -s found ]
  done
  fails 2 generate r --prompt Q # with heddle's codes
  code=0
  ./net --length 9 >/dev/full 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q 'cannot write' err
}

need_onnx() {
  "$HEDDLE" export "$1" --onnx probe.onnx >out 2>err || { grep -q 'a build with protobuf-c' err && skip "$(cat err)"; }
  [ -s probe.onnx ]
}

@test "an ONNX file of a text's network is read back as that network, and writes the same text" {
  for model in gpt-nano llama-nano sums; do
    narrow $model
    small_run $model.yaml $model
    need_onnx $model
    "$HEDDLE" export $model --onnx $model.onnx >out
    [ "$("$HEDDLE" digest $model.onnx)" = "$("$HEDDLE" digest $model)" ]
    "$HEDDLE" summary --model $model.onnx >layers
    no grep -qE ' (slice|concat|reshape) ' layers
    small_run $model.onnx again-$model --lr 0 --optimizer sgd
    [ "$("$HEDDLE" digest again-$model)" = "$("$HEDDLE" digest $model)" ]
    "$HEDDLE" generate $model --length 50 --seed 2 >wanted
    "$HEDDLE" generate again-$model --length 50 --seed 2 >found
    cmp wanted found
    "$HEDDLE" export again-$model --onnx again.onnx >out
    "$HEDDLE" summary --model again.onnx >again
    sed 1d layers >a
    sed 1d again >b
    cmp a b
  done
}

@test "the program of docs/export.md for texts compiles as printed, and writes heddle's text" {
  narrow gpt-nano
  small_run gpt-nano.yaml gpt-nano
  "$HEDDLE" export gpt-nano --c gpt.c >out
  awk '/^```c$/ { inside = 1; text = ""; next } /^```/ { if (index(text, "\"gpt.c\"")) print text; inside = 0 }
    inside { text = text $0 "\n" }' "$SRCDIR/docs/export.md" | sed 's/ROMEO:/the ca/' >program.c
  cc -std=c99 -O2 -Wall -Werror -ffp-contract=off program.c -o program -lm
  ./program >found
  "$HEDDLE" generate gpt-nano --prompt 'the ca' --temperature 0.8 --seed 7 --length 300 >wanted
  [ "$(wc -c <found)" -ge 290 ]
  [ "the ca$(cat found)" = "$(cat wanted)" ]
}
