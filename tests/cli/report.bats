# heddle report: pages of runs that ended, go on, were cut short, or predict numbers; their figures as files; and what
# it says of folders and files that are no runs.

load cli

# page FILE: nothing in it is loaded from elsewhere, and no number is missing.
page() {
  [ -s "$1" ] || { echo "expected a page in $1, found none"; return 1; }
  no grep -niE 'https?:|url\(|@import|<link|<iframe' "$1" || return 1
  no grep -noE 'src="[^d][^"]{0,20}' "$1" || return 1
  sed 's/base64,[^"]*//' "$1" >"$1.short"
  no grep -nwE -e '-?(nan|inf)' "$1.short" || return 1
  [ "$(tail -n 1 "$1")" = "</body></html>" ]
}

# has FILE TEXT...: the page holds each text.
has() {
  local file=$1 text
  shift
  for text; do
    grep -qF -e "$text" "$file" || { echo "expected '$text' in $file, found none"; return 1; }
  done
}

# parsed FILE...: each is XML.
parsed() {
  local file
  for file; do
    if command -v xmllint >/dev/null; then
      xmllint --noout --nonet "$file"
    else
      python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$file"
    fi
  done
}

@test "train writes the page of its run, and report the same one" {
  train --out r --log-every 5 --eval-every 10 --val-split 0.1
  grep -q '^report  *r/report.html$' out
  page r/report.html
  has r/report.html "$DIGEST" 'data:image/png;base64,iVBORw0KGgo' 'Loss by step' 'Accuracy by step' \
    'Learning rate by step' \
    'data-name="validation"' 'data-name="training"' 'Confusion matrix' 'seconds went' '--val-split 0.1' \
    '7,850 parameters'
  cp r/report.html kept
  "$HEDDLE" report r/ >out
  grep -q '^report  *r/report.html$' out
  cmp r/report.html kept
  "$HEDDLE" report r -o elsewhere.html >out
  cmp elsewhere.html kept
  nothing_half_written
  "$HEDDLE" certify r >out
  "$HEDDLE" verify r >out
  grep -q '^verified' out
}

@test "the JSON of train and of report names the page; figures are files of their own" {
  train --out r --log-every 5 --eval-every 10
  [ "$(json_get report <out)" = r/report.html ]
  "$HEDDLE" report r --json --svg figures >out
  [ "$(json_get report runs figures notes <out)" = \
    'r/report.html ["r"] ["loss","accuracy","lr","confusion","time","network"] []' ]
  [ "$(cd figures && ls | xargs)" = "accuracy.svg confusion.svg loss.svg lr.svg network.svg time.svg" ]
  command -v xmllint >/dev/null || command -v python3 >/dev/null || skip "neither xmllint nor python3 is installed"
  parsed figures/*.svg
}

@test "the curve of losses has each step, the last batch of an epoch included" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  train --out r --log-every 1 --batch 131 --max-steps 60 # 29.3 batches of an epoch
  "$HEDDLE" report r --svg f >out
  python3 - <<'EOS'
import json, re
text = open("f/loss.svg").read()
axes = [float(x) for x in re.search(r'data-axes="([^"]*)"', text).group(1).split()]
points = re.search(r'data-name="training" points="([^"]*)"', text).group(1).split()
logged = [json.loads(line) for line in open("r/metrics.jsonl")]
logged = [line["loss"] for line in logged if line["type"] == "step"]
assert len(points) == len(logged) == 60, len(points)
for point, loss in zip(points, logged):
    y = float(point.split(",")[1])
    below = (y - axes[2]) / (axes[3] - axes[2])
    shown = axes[7] * (axes[6] / axes[7]) ** below if axes[8] else axes[7] - below * (axes[7] - axes[6])
    assert abs(shown - loss) < 1e-3 * axes[7], (shown, loss)
EOS
}

@test "a curve of many numbers says of how many steps its points are means" {
  train --out r --log-every 5 --batch 8 --max-steps 800 # 160 numbers in 150 points
  for what in 'Learning rate' Loss; do
    has r/report.html "$what by step; curves: means of about 5 steps"
  done
}

@test "several runs: what differs, a colour for each, and the accuracy over time" {
  train --out runs/a --lr 0.1 --log-every 5
  train --out runs/b --lr 0.01 --log-every 5
  "$HEDDLE" report runs/a runs/b --svg f >out
  grep -q '^report  *report.html$' out
  page report.html
  has report.html '2 runs' '<th class="">lr</th>' 'data-name="a"' 'data-name="b"' 'training time' 'class="curve c1 d0"'
  no grep -q '<th class="">batch</th>' report.html
  [ -s f/loss.svg ]
  [ -s f/time-accuracy.svg ]
  cp report.html kept
  "$HEDDLE" report runs -o all.html >out
  cmp all.html kept
  mkdir runs/damaged
  echo '{"broken": ' >runs/damaged/run.json
  "$HEDDLE" report runs -o all.html >out 2>err
  [ "$(grep -c '^heddle: warning: left out: runs/damaged/run.json:' err)" -eq 1 ]
  has all.html '2 runs' 'left out: runs/damaged/run.json:'
  train --out c --data random:1x28x28
  "$HEDDLE" report runs/a c -o other.html >out 2>err
  has other.html 'trained on different data'
}

@test "regression: losses, and no accuracy" {
  "$HEDDLE" train --model regression --max-steps 60 --batch 64 --out r >out
  page r/report.html
  has r/report.html 'Test loss' 'Loss by step'
  no grep -qi 'confusion\|accuracy by' r/report.html
}

@test "a run that was killed, or whose files were cut or edited, has what is left, and a note" {
  train --out r --log-every 5
  sed -i '$d' r/history.jsonl # as after a kill
  sed -i '3s/.*/{"step": 3, "loss"/; 4s/.*/[]/' r/metrics.jsonl
  head -c 160 r/losses.bin >short
  cp short r/losses.bin
  rm r/wrong.png
  "$HEDDLE" report r >out 2>err
  page r/report.html
  has r/report.html 'the run is unfinished' 'found 2 other lines' 'found none of 30 steps'
  [ "$(grep -c '^heddle: warning: ' err)" -eq 3 ]
  rm r/losses.bin r/history.jsonl r/metrics.jsonl
  "$HEDDLE" report r >out 2>err
  page r/report.html
  no grep -q 'data-name' r/report.html
}

@test "names from files are text, in pages and figures" {
  folder='<b>&"r'
  train --log-every 5 --out "$folder"
  sed -i 's/"model": "simplenet"/"model": "<script>alert(1)<\/script>\\"x"/' "$folder/run.json"
  sed -i 's/"cpu":"[^"]*"/"cpu":"<img onerror=alert(2)>"/' "$folder/history.jsonl"
  "$HEDDLE" report "$folder" >out
  page "$folder/report.html"
  has "$folder/report.html" '&lt;script&gt;alert(1)&lt;/script&gt;&quot;x' '&lt;img onerror'
  cp -r "$folder" two
  "$HEDDLE" report "$folder" two --svg f -o two.html >out
  [ "$(cat "$folder/report.html" two.html | grep -c '<script>')" -eq 2 ] # their own
  no grep -F -e '<b>' -e '<img onerror' two.html "$folder/report.html"
  has f/loss.svg 'data-name="&lt;b&gt;&amp;&quot;r"'
  command -v xmllint >/dev/null || command -v python3 >/dev/null || skip "neither xmllint nor python3 is installed"
  parsed f/*.svg
}

@test "a link in a run's folder is not read as a picture, nor written through" {
  train --out r
  echo secret >secret
  ln -sf ../secret r/wrong.png
  ln -sf ../secret r/report.html
  "$HEDDLE" report r >out
  [ ! -L r/report.html ]
  [ "$(cat secret)" = secret ]
  no grep -q 'data:image' r/report.html
  ln -s r/report.html link.html
  "$HEDDLE" report r -o link.html >out
  [ -L link.html ]
  "$HEDDLE" report r -o /dev/stdout >out
  grep -q '^<!doctype html>' out
}

# follow: a run in r whose page is written; the process that writes it is $follower.
follow() {
  start $TINY --epochs 100000 --max-steps 1000000 --log-every 1 --out r
  await_line 'step 1:'
  "$HEDDLE" report r --follow >followed 2>err2 9<&- &
  follower=$!
  while ! grep -q 'http-equiv="refresh"' r/report.html 2>/dev/null; do
    kill -0 "$follower" || { cat err2; return 1; }
    await_line 'step [0-9]*:'
  done
}

@test "--follow writes the page while a run goes on, and ends with it" {
  follow
  has r/report.html 'the run is running'
  kill "$CHILD"
  finish
  wait "$follower"
  grep -q '^report  *r/report.html$' followed
  no grep -q 'http-equiv' r/report.html
  has r/report.html 'the run is stopped'
  page r/report.html
  nothing_half_written
}

@test "--follow ends when the run's process is gone, or with a signal" {
  follow
  kill -TERM "$follower"
  code=0
  wait "$follower" || code=$?
  [ "$code" -eq 143 ]
  no grep -q 'http-equiv' r/report.html
  "$HEDDLE" report r --follow >followed 2>err2 9<&- &
  follower=$!
  kill -KILL "$CHILD"
  finish
  wait "$follower"
  has r/report.html 'the run is unfinished'
}

@test "bad input is one line, and leaves nothing half written" {
  mkdir empty
  fails 1 report empty
  says "expected a run" "give the folder of a run"
  fails 1 report nowhere
  fails 2 report
  train --out r
  rm r/report.html
  fails 1 report r -o nowhere/page.html
  says "--output" "nowhere/page.html"
  fails 1 report r -o empty
  fails 1 report r --svg r/run.json
  [ "$(ls -A empty)" = "" ]
  nothing_half_written
  fails 2 report r --svg
}

@test "a page that cannot be written is a warning of train" {
  mkdir -p r/report.html
  "$HEDDLE" train $TINY --out r --json >out 2>err
  grep -q '^heddle: warning: .*report.html' err
  tail -n 1 out | grep -q '"report": null'
  no grep -q '^report ' out
  [ -e r/history.jsonl ]
}

@test "in a comparison the scores come before the settings, which may be long" {
  "$HEDDLE" train $TINY --out a >/dev/null
  "$HEDDLE" train $TINY --lr 0.01 --transforms '[to_float, normalise]' --out b >/dev/null
  "$HEDDLE" report a b -o page.html >/dev/null
  tr -d '\n' <page.html | grep -q '<thead>.*>test_accuracy<.*>lr<.*</thead>'
  grep -q 'body:has(.runs){max-width:76rem}' page.html
}

@test "the times of a run stand in rows of three, for narrow screens" {
  "$HEDDLE" train $TINY --out a >/dev/null
  "$HEDDLE" report a --svg pictures >/dev/null
  [ "$(grep -c '<rect class="f[0-9]" x="0" y="\(46\|98\)"' pictures/time.svg)" -eq 2 ]
}
