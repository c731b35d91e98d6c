# Texts: training on the next token, whatever the layout; the text that a network writes; what does not fit a text.

load cli

# text FILE CHARACTERS: words that repeat themselves, but not in the same order.
text() {
  awk -v n="$2" 'BEGIN {
    split("the cat sat on a mat and saw it;then ran.\n", w, "")
    for (s = 1; i < n; i++) {
      if (i % 7 == 0) s = (s * 1103 + 12345) % 65536
      printf "%s", w[(int(s / 64) + i) % 42 + 1]
    }
  }' >"$1"
}

small() {
  printf '%s\n' "model: small" "input: data" "layers:" \
    "  - wte: {op: embedding, tokens: classes, out: 16, std: 0.1}" "  - wpe: {op: position}" \
    "  - qkv: {op: linear, out: 48}" "  - attn: {op: attention, heads: 2}" "  - sum: {op: add, from: [attn, wpe]}" \
    "  - scores: {op: linear, out: classes, bias: false, share: wte}" >small.yaml
}

run_of() {
  "$HEDDLE" train --model small.yaml --context 8 --batch 8 --epochs 3 --lr 0.01 --json "$@" >out 2>err ||
    { cat err; return 1; }
}

# one_digest LAYOUT...: small.yaml's run in each layout, and resumed, has one digest, and is verified.
one_digest() {
  text a.txt 3000
  run_of --data a.txt --out a
  digest=$(digest_of out)
  for layout; do
    run_of --data a.txt --out "b$layout" $layout
    [ "$(digest_of out)" = "$digest" ]
  done
  run_of --data a.txt --out c --max-steps 60
  "$HEDDLE" train --resume c --max-steps 10000 >out
  [ "$(digest_of out)" = "$digest" ]
  is_verified a
}

@test "a text: the digest does not depend on the layout, nor does what is resumed; the run is certified" {
  small
  one_digest "--threads 2" "--procs 2" "--workers 2" "--accumulate 2"
}

@test "recurrent layers: the digest does not depend on the layout; what they lack is refused by name" {
  printf '%s\n' "model: states" "input: [8]" "layers:" "  - e: {op: embedding, tokens: classes, out: 16}" \
    "  - l: {op: lstm, hidden_size: 12, num_layers: 2}" "  - g: {op: gru, hidden_size: 17}" \
    "  - o: {op: linear, out: classes}" >small.yaml
  one_digest "--threads 2" "--procs 2" "--stages 2 --threads 2" "--accumulate 2"
  for layer in 0 1; do
    for name in weight_ih weight_hh bias_ih bias_hh; do grep -q "l\.${name}_l$layer" a/last/model.safetensors; done
  done
  grep -q "g\.weight_hh_l0" a/last/model.safetensors
  for setting in "bidirectional: true" "proj_size: 4"; do
    sed "s/hidden_size: 17/hidden_size: 17, $setting/" small.yaml >other.yaml
    fails 1 train --model other.yaml --data a.txt --max-steps 1
    says "${setting%:*}"
  done
  sed 's/hidden_size: 17/units: 17/' small.yaml >other.yaml
  fails 1 train --model other.yaml --data a.txt --max-steps 1
  says "hidden_size"
}

@test "tokens in a .bin and in a .npy file train as the text does that they are" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  digest=$(digest_of out)
  tokens=$(fold -b -w 1 a.txt 2>/dev/null | LC_ALL=C sort -u | wc -l)
  [ "$tokens" -gt 5 ]
  LC_ALL=C od -An -v -tu1 a.txt | tr -s ' ' '\n' | awk 'NF { b[n++] = $1; seen[$1] = 1 } END {
    for (c = 0; c < 256; c++) if (seen[c]) token[c] = k++
    for (i = 0; i < n; i++) printf "\\%03o\\0", token[b[i]] }' >tokens
  printf "$(cat tokens)" >a.bin
  { printf '\241\331\064\001\007\0\0\0\270\013\0\0' # llm.c's header for 3,000 numbers of 32 bits
    head -c 1012 /dev/zero; printf "$(sed 's/\\0\\/\\0\\0\\0\\/g; s/$/\\0\\0/' tokens)"; } >wide.bin
  run_of --data wide.bin --out w
  [ "$(digest_of out)" = "$digest" ]
  tail -c +1025 wide.bin >plain.bin
  "$HEDDLE" data plain.bin --context 8 >note 2>&1
  grep -q 'plain.bin: every second token is 0, as if numbers of 32 bits had been written' note
  mkdir both
  cp a.bin both/train.bin
  cp a.bin both/test.bin
  "$HEDDLE" data both --context 8 --json >note
  [ "$(json_get tokens <note)" = 3000 ] || { cat note; return 1; }
  run_of --data a.bin --out b
  [ "$(digest_of out)" = "$digest" ]
  grep -q '"train_samples": 336' b/run.json
  run_of --data a.txt --tokens bytes --out c
  [ "$(digest_of out)" != "$digest" ]
}

@test "a text of one's own is evaluated whole, and the run's text as its test set, under any name" {
  text a.txt 900
  small
  run_of --data a.txt --epochs 1 --out a
  "$HEDDLE" eval a >own
  cp a.txt b.txt
  "$HEDDLE" eval a --data b.txt >out
  grep -q "^samples  *12, the run's test set$" out
  cmp <(sed 1d own) <(sed 1d out)
  for count in 80 899; do
    head -c $count a.txt >some.txt
    "$HEDDLE" eval a --data some.txt | grep -q "^samples  *$(((count + 6) / 8)), all of the data$"
  done
}

@test "a run of bytes is evaluated, continued, verified and certified as one of bytes" {
  text a.txt 3000
  small
  run_of --data a.txt --tokens bytes --out a
  loss=$(sed -n 's/.*"test_loss": \([^,]*\),.*/\1/p' out)
  [ -n "$loss" ]
  "$HEDDLE" eval a --json >out
  grep -q "\"loss\": $loss," out
  "$HEDDLE" generate a --prompt 'the cat' --length 20 >out
  grep -q '^the cat[a-z .;]*' out
  grep -q '<h2>Hard bytes</h2>' a/report.html
  "$HEDDLE" verify a
  "$HEDDLE" certify a
  "$HEDDLE" verify a/certificate.json
}

# The first step's network knows nothing, and writes any bytes.
@test "bytes that are no characters are shown by their numbers; a pipe has them as they are" {
  awk 'BEGIN { for (i = 0; i < 400; i++) printf "caf\303\251 \342\202\254 \377\001" }' >a.txt
  small
  run_of --data a.txt --tokens bytes --lr 0 --max-steps 1 --sample-every 1 --out a
  grep -q '"text": *"[^"]*\\\\x[89A-F][0-9A-F]' a/history.jsonl
  grep -q '<td class="name">\\xC3</td>' a/report.html
  grep -q '<td class="name">c</td>' a/report.html
  "$HEDDLE" generate a --length 400 --prompt "$(printf 'caf\303\251')" >raw
  [ "$(LC_ALL=C wc -c <raw)" -ge 405 ]
  LC_ALL=C grep -q "$(printf '[\200-\377]')" raw
  no grep -q '\\x[89A-F]' raw
  need_terminal
  TERM=xterm "$BUILDDIR/tests/cli/on_terminal" 24x80 screen -- "$HEDDLE" generate a --length 400 \
    --prompt "$(printf 'caf\303\251')"
  grep -q "$(printf '^caf\303\251')" screen
  grep -q '\\x[89A-F][0-9A-F]' screen
  tr -d '\r\n' <screen | iconv -f UTF-8 -t UTF-8 >/dev/null
}

@test "a network writes the same text whatever the threads and the instruction set" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  "$HEDDLE" generate a --length 100 --seed 5 --prompt 'the cat' >one
  HEDDLE_ISA=scalar "$HEDDLE" generate a --length 100 --seed 5 --prompt 'the cat' --threads 2 >two
  cmp one two
  [ "$(head -c 7 one)" = 'the cat' ]
  [ "$(wc -c <one)" -ge 107 ]
  printf 'the cat' | "$HEDDLE" generate a --length 100 --seed 5 --prompt - >two
  cmp one two
  "$HEDDLE" generate a --length 100 --seed 6 --prompt 'the cat' >two
  no cmp -s one two
  "$HEDDLE" generate a --length 40 --temperature 0 >one
  "$HEDDLE" generate a --length 40 --top-k 1 --seed 9 >two
  cmp one two
  "$HEDDLE" generate a --length 100000 | head -c 1 >/dev/null
}

@test "several texts at once: the first is that of one alone; the instruction set changes none" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  for isa in scalar avx2 avx512 ''; do
    HEDDLE_ISA=$isa "$HEDDLE" generate a --length 60 --count 3 --prompt 'the cat' --top-k 9 --top-p 0.9 \
      >"of$isa" 2>err || { grep -q HEDDLE_ISA err && cp of "of$isa"; }
    cp -n "of$isa" of
    cmp of "of$isa"
  done
  [ "$(grep -c '^---- [23] of 3 ----$' of)" = 2 ]
  "$HEDDLE" generate a --length 60 --prompt 'the cat' --top-k 9 --top-p 0.9 >one
  sed '/^---- 2 of 3/,$d' of >first
  cmp one first
  "$HEDDLE" generate a --length 40 --top-p 1e-6 >one
  "$HEDDLE" generate a --length 40 --temperature 0 >two
  cmp one two
}

@test "a text ends at Ctrl-C, and at a terminal no line is longer than that" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  mkfifo pipe
  "$HEDDLE" generate a --length 999999999 >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  read -r -N 300 -u 9 line
  kill -INT "$CHILD"
  finish
  [ "$code" -eq 130 ]
  [ ! -s err ]
  code=0
  { "$HEDDLE" generate a --length 999999999 || echo $? >code; } | head -c 100 >/dev/null
  [ "$(cat code)" -eq 141 ]
  need_terminal
  tr -d '\n' <a.txt >flat.txt
  run_of --data flat.txt --out flat
  TERM=xterm "$BUILDDIR/tests/cli/on_terminal" 24x80 screen -- "$HEDDLE" generate flat --length 400
  [ "$(tr -d '\r' <screen | awk 'length > 80' | wc -l)" -eq 0 ]
  [ "$(wc -l <screen)" -ge 5 ]
}

@test "a window of one token: the digest does not depend on the layout, and a token follows from the last one alone" {
  text a.txt 3000
  small
  printf '%s\n' "model: pairs" "input: [1]" "layers:" "  - e: {op: embedding, tokens: classes, out: 16}" \
    "  - l: {op: lstm, hidden_size: 12}" "  - o: {op: linear, out: classes}" >pairs.yaml
  for model in "--model small.yaml --context 1" "--model pairs.yaml"; do
    rm -rf a b
    "$HEDDLE" train $model --data a.txt --batch 64 --epochs 2 --lr 0.01 --sample-every 50 --out a >out
    digest=$(digest_of out)
    grep -q '^a text after step 50:$' out
    for layout in "--threads 2" "--procs 2" "--accumulate 2"; do
      "$HEDDLE" train $model --data a.txt --batch 64 --epochs 2 --lr 0.01 --out b $layout >out
      [ "$(digest_of out)" = "$digest" ]
      rm -rf b
    done
    "$HEDDLE" generate a --prompt 'the cat' --length 40 --temperature 0 >one
    "$HEDDLE" generate a --prompt 't' --length 40 --temperature 0 >two
    [ "$(tail -c 41 one)" = "$(tail -c 41 two)" ]
    "$HEDDLE" generate a --length 60 --count 3 >one
    HEDDLE_ISA=scalar "$HEDDLE" generate a --length 60 --count 3 >two
    cmp one two
    "$HEDDLE" export a --c net.c >out
    cc -O1 -ffp-contract=off -DHEDDLE_MAIN net.c -o net -lm
    "$HEDDLE" generate a --length 60 --prompt 'cat' >one
    ./net --length 60 --prompt 'cat' >two
    cmp one two
  done
}

@test "training shows a text every few steps, the same whatever the layout, and no other weights" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  digest=$(digest_of out)
  "$HEDDLE" train --model small.yaml --context 8 --batch 8 --epochs 3 --lr 0.01 --data a.txt --sample-every 40 \
    --threads 1 --out b >out
  [ "$(digest_of out)" = "$digest" ]
  [ "$(grep -c '^a text after step [0-9]*:$' out)" = 4 ]
  shown='/^a text/ { p = 1; next } !/^  / { p = 0 } p'
  awk "$shown" out >one
  [ "$(wc -l <one)" -gt 4 ]
  "$HEDDLE" train --model small.yaml --context 8 --batch 8 --epochs 3 --lr 0.01 --data a.txt --sample-every 40 \
    --procs 2 --out c >out
  [ "$(digest_of out)" = "$digest" ]
  awk "$shown" out | cmp - one
  [ "$(grep -c '^<p class="soft">After step' b/report.html)" = 4 ]
  grep -q '<h2>Hard characters</h2>' b/report.html
  sed -i 's/"text":"./&<b>/; s/"step":40,/"step":41,/' c/history.jsonl # a file that was edited is text, too
  "$HEDDLE" report c >out
  [ "$(grep -c '^.&lt;b&gt;' c/report.html)" -ge 4 ]
  [ "$(sed -n '/^<pre>/,/<.pre>$/p' b/report.html | grep -c '?')" = 0 ]
  grep -q 'After step 41' c/report.html
  for key in character_samples character_losses; do
    tail -n 1 b/history.jsonl | json_get $key | tr -d '[]' | tr , '\n' >$key
    tail -n 1 c/history.jsonl | json_get $key | tr -d '[]' | tr , '\n' | cmp - $key
  done
  paste character_samples character_losses | awk -v loss="$(tail -n 1 b/history.jsonl | json_get test_loss)" '
    { n += $1; l += $1 * $2 } END { exit !(n > 100 && (l / n - loss) ^ 2 < 1e-10) }'
  run_of --data a.txt --sample-every 40 --out d
  tail -n 1 out | json_get weights_sha256 >/dev/null
  fails 2 train $TINY --sample-every 10
  says "--sample-every is for texts"
  sed 's/heads: 2}/heads: 2, causal: false}/' small.yaml >both.yaml
  no "$HEDDLE" train --model both.yaml --context 8 --data a.txt --sample-every 10 --procs 2 --out e >out 2>err
  grep -q -- '--sample-every expects a single process, or a network of texts' err
  "$HEDDLE" train --model both.yaml --context 8 --data a.txt --sample-every 2 --max-steps 2 --out e >out
  grep -q '^a text after step 2:$' out
  "$HEDDLE" train --resume e --procs 2 --max-steps 4 >out
  grep -q -- '--sample-every shows no texts' out
  no grep -q '^a text after' out
  "$HEDDLE" generate e --length 20 >out
}

@test "a GPU shows the texts that CPUs show, before and after a run is resumed on the other" {
  HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so
  HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
  [ -e "$HEDDLE_CUDA_DRIVER" ] || skip "expected a stand-in for a GPU, found none"
  export HEDDLE_CUDA_DRIVER HEDDLE_CUDA_MODULE
  text a.txt 3000
  small
  SHOWN="--model small.yaml --context 8 --batch 8 --data a.txt --sample-every 3 --max-steps 6"
  texts='/^a text/ { p = 1 } !/^a text|^  / { p = 0 } p'
  for device in cpu cuda; do
    "$HEDDLE" train $SHOWN --device $device --out on-$device >$device
    awk "$texts" $device >$device.texts
    [ "$(grep -c '^a text after' $device.texts)" = 2 ]
    grep -o '"character_losses":.*' on-$device/history.jsonl >$device.losses
    "$HEDDLE" train $SHOWN --device $device --max-steps 3 --out half-$device >out
  done
  cmp cpu.texts cuda.texts
  cmp cpu.losses cuda.losses
  "$HEDDLE" train --resume half-cpu --device cuda --max-steps 6 >out
  [ "$(digest_of out)" = "$(digest_of cpu)" ]
  awk "$texts" out >rest
  tail -n "$(wc -l <rest)" cpu.texts | cmp - rest
  "$HEDDLE" train --resume half-cuda --device cpu --max-steps 6 >out
  [ "$(digest_of out)" = "$(digest_of cpu)" ]
  awk "$texts" out | cmp - rest
  # whole answers are judged there, too
  for device in cpu cuda; do
    "$HEDDLE" train --model small.yaml --data sums --max-steps 20 --batch 64 --device $device --json \
      --out sums-$device >out
    json_get test_accuracy <out >$device.score
  done
  no grep -q null cpu.score
  cmp cpu.score cuda.score
}

@test "the models of texts have the parameters that the documentation says" {
  awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%c", 33 + i % 65 }' >letters.txt
  for model in gpt-nano gpt-baby llama-nano char-lstm sums; do
    data=letters.txt
    [ $model != sums ] || data=sums
    wanted=$(sed -n "s/^| .$model. .* | \([0-9,]*\) |$/\1/p" "$SRCDIR/docs/data.md")
    [ -n "$wanted" ]
    grep -q "^# .*$wanted parameters" "$SRCDIR/data/models/$model.yaml"
    "$HEDDLE" summary --model $model --data $data >out
    grep -q "$wanted" out || { cat out; false; }
  done
  "$HEDDLE" train --model sums --data sums --max-steps 3 --out s >out
  "$HEDDLE" generate s --prompt '12+34=' --length 4 >out
}

@test "sums are right or wrong as a whole" {
  printf '%s\n' "model: sums" "input: data" "layers:" "  - e: {op: embedding, tokens: classes, out: 16, std: 0.1}" \
    "  - p: {op: position, std: 0.1}" "  - q: {op: linear, out: 48}" "  - a: {op: attention, heads: 2}" \
    "  - s: {op: add, from: [a, p]}" "  - l: {op: linear, out: classes}" >sums.yaml
  "$HEDDLE" train --model sums.yaml --data sums --max-steps 100 --lr 0.01 --out a --json >out
  grep -Eq '^test accuracy +[0-9.]+ % \(1,[0-9]+ wrong\)$' out
  [ "$(json_get test_accuracy <out)" != null ]
  "$HEDDLE" eval a --json >out
  [ "$(json_get accuracy <out)" != null ]
}

@test "heddle data describes a text" {
  text a.txt 3000
  "$HEDDLE" data a.txt --context 8 --json >out
  [ "$(json_get samples <out)" = 336 ]
  [ "$(json_get test_samples <out)" = 38 ]
  grep -Fq '"class_names": ["\u000a", " ", ' out
  [ "$(json_get window tokens_are tokens test_tokens shape mean <out)" = "8 characters 2700 300 null null" ]
  kinds=$(json_get classes <out)
  "$HEDDLE" data a.txt --context 8 >out
  grep -qx 'windows    336 to train, 38 to test' out
  grep -qx 'window     8 characters, each followed by the next' out
  grep -qx 'text       2,700 characters to train, 300 to test' out
  grep -qx "vocabulary $kinds characters" out
  grep -Eq '^token +train +test$' out
  no grep -Eq '^(shape|size|mean|std|classes)' out
  "$HEDDLE" data a.txt --tokens bytes >out
  grep -qx 'text       2,700 bytes to train, 300 to test' out
  grep -qx 'vocabulary 256 bytes' out
  mkdir parts
  cp a.txt parts/train.txt
  head -c 500 a.txt >parts/val.txt
  head -c 400 a.txt >parts/test.txt
  "$HEDDLE" data parts --context 8 >out
  grep -qx 'windows    437 to train, 63 of them for validation, 50 to test' out
  grep -qx 'text       3,500 characters to train, 400 to test' out
  printf '\1\0\2\0\3\0%.0s' $(seq 100) >numbers.bin
  "$HEDDLE" data numbers.bin --context 8 --json >out
  [ "$(json_get tokens_are tokens test_tokens classes <out)" = "numbers 270 30 4" ]
}

@test "a certificate knows every token of a text, also those that no window of an epoch has" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  "$HEDDLE" certify a >out
  "$HEDDLE" verify a/certificate.json --data a.txt >out
  for at in 2700 2690 3000 1; do
    other=e
    [ "$(tail -c +$at a.txt | head -c 1)" != e ] || other=a
    { head -c $((at - 1)) a.txt && printf $other && tail -c +$((at + 1)) a.txt; } >b.txt
    no cmp -s a.txt b.txt
    code=0
    "$HEDDLE" verify a/certificate.json --data b.txt >out || code=$?
    [ $code -eq 4 ]
    grep -q '^not comparable' out
  done
}

# sum_of KEY: of a list in out.
sum_of() { json_get "$1" <out | tr -d '[]' | tr ',' '\n' | awk '{ n += $1 } END { print n }'; }

# Where a window ends far behind the text nothing is read: a sanitized build says if something is.
@test "the table of a text counts every token that follows another, in windows of any length" {
  text a.txt 3000
  mkdir parts
  cp a.txt parts/train.txt
  cp a.txt parts/val.txt
  head -c 1000 a.txt >parts/test.txt
  for context in 1 8 100 299; do
    "$HEDDLE" data a.txt --context $context --json >out
    [ "$(sum_of per_class) $(sum_of test_per_class)" = "2699 299" ]
    "$HEDDLE" data parts --context $context --json >out
    [ "$(sum_of per_class)" = 5998 ]
  done
  awk 'BEGIN { for (i = 0; i < 3600; i++) printf "é%s", i % 7 ? "ab" : "\n" }' >long.txt
  for context in 900 600; do
    "$HEDDLE" data long.txt --context $context --json >out
    [ "$(sum_of test_per_class)" = "$(($(json_get test_tokens <out) - 1))" ]
  done
}

@test "a byte order mark before a text is no character of it, and that is said" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  digest=$(digest_of out)
  { printf '\357\273\277' && cat a.txt; } >marked.txt
  run_of --data marked.txt --out b
  [ "$(digest_of out)" = "$digest" ]
  cat out err | grep -q 'marked.txt: the byte order mark (U+FEFF) that it begins with is left out'
  "$HEDDLE" data marked.txt >out
  grep -q 'note .*marked.txt: the byte order mark' out
  "$HEDDLE" data marked.txt --tokens bytes --json >out
  [ "$(json_get tokens test_tokens <out)" = "2703 300" ]
  { printf '\357\273\277' && printf 'Q' && cat a.txt; } >other.txt
  fails 1 eval a --data other.txt
  says "U+0051 'Q' at byte 3"
  printf '\357\273\277' >alone.txt
  fails 1 train --model small.yaml --data alone.txt
  says "expected at least 65 tokens" "found 0"
}

@test "what does not fit a text is refused in one line" {
  text a.txt 3000
  small
  run_of --data a.txt --out a
  printf 'abc' >short.txt
  printf 'the cat \377' >bad.txt
  text other.txt 3000
  printf 'Q' >>other.txt
  printf '%s\n' "model: rows" "input: [2]" "layers:" "  - e: {op: embedding, tokens: 5, out: 4}" \
    "  - m: {op: global_avg_pool2d}" "  - f: {op: flatten}" "  - l: {op: linear, out: 2}" >rows.yaml
  for i in $(seq 40); do echo "$((i % 5)),$((i % 3)),$((i % 2))"; done | sed '1ia,b,label' >rows.csv
  refuses <<'END'
1 train --model mlp --data a.txt | expected scores for each of the 64 tokens of a window of a.txt
1 train --model simplenet --data a.txt | expected the input
1 train --model small.yaml --data digits | expects a flat input
2 train --model small.yaml --data a.txt --val-split 0.1 | --val-split expects samples that stand alone | val.txt
2 train --model small.yaml --data a.txt --transforms '[to_float]' | --transforms expects pictures
2 train --model small.yaml --data a.txt --tta mirror | --tta
2 train --model small.yaml --data a.txt --sampler balanced | --sampler balanced
1 train --model small.yaml --data a.txt --loss mse | expects one flat score
1 train --model small.yaml --data short.txt | expected at least 65 tokens
1 train --model small.yaml --data bad.txt | 0xff at byte 8 | --tokens bytes
2 train --model mlp --data digits --context 8 | --context is for texts
2 train --model mlp --data digits --tokens bytes | --tokens is for texts
1 eval a --data other.txt | found U+0051 'Q'
1 predict a --index 0 | heddle generate
2 data a.txt --sheet a.png | --sheet
2 generate | found 0
2 generate a --prompt 'Qed' | the prompt
2 generate a --temperature -1 | temperature
2 generate a --seed 0.5 | --seed
2 generate a --top-p 0 | --top-p
2 generate a --top-p 1.1 | --top-p
2 generate a --count 0 | --count
2 generate a --count 65537 | --count
2 train --model rows.yaml --data rows.csv | layer 'e': embedding expects whole numbers | --normalize none
END
  "$HEDDLE" train $TINY --max-steps 1 --out tiny >out
  fails 1 generate tiny
  says "use heddle predict"
  "$HEDDLE" train --model rows.yaml --data rows.csv --normalize none --max-steps 2 --out rows >out
}

@test "bits per byte count the bytes of what is predicted" {
  mkdir odd
  printf 'ab\303\251\303\251b a\n%.0s' {1..20} >odd/train.txt
  printf 'a%s' "$(printf '\303\251%.0s' {1..16})" >odd/test.txt
  printf '%s\n' 'model: m' 'input: data' 'layers:' '  - e: {op: embedding, tokens: classes, out: 4}' \
    '  - h: {op: linear, out: classes}' >m.yaml
  "$HEDDLE" train --model ./m.yaml --data odd --context 8 --max-steps 1 --out r >out
  "$HEDDLE" eval r --json >out
  json_get loss bits_per_byte <out | awk '{ d = $1 / log(2) / 2 - $2; exit d > 1e-6 || d < -1e-6 }'
}
