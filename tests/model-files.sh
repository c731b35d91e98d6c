#!/bin/sh
# TAP: docs/model-files.md is correct: its examples are models, and its table has every operation and setting there
# is.
. "$SRCDIR/tests/tap.sh"
page=$SRCDIR/docs/model-files.md

# Example N goes to N.yaml.
awk -v folder="$folder" '/^```yaml/ { n++; inside = 1; next } /^```/ { inside = 0 }
  inside { print >(folder "/" n ".yaml") }' "$page"
for example in "$folder"/*.yaml; do
  said=$("$HEDDLE" summary --model "$example" 2>&1 >/dev/null)
  result $? "the example '$(sed -n 's/^model: //p' "$example")' is a model" "$said"
done

# An operation's row: its line of the tables, which may hold several. What the sources list must be there.
grep '^\(LAYER\|ELEMENTWISE\)(' "$SRCDIR/src/kernel/ops.def" >"$folder/forms"
[ -s "$folder/forms" ] || { echo "Bail out! found no layers in src/kernel/ops.def"; exit 1; }
sed -n '/losses\[\] = {/,/^};/p' "$SRCDIR/src/graph/model_loss.c" | grep HD_OP_ | sed 's/"op", //' >"$folder/losses"
[ -s "$folder/losses" ] || { echo "Bail out! found no losses in src/graph/model_loss.c"; exit 1; }
cat "$folder/losses" >>"$folder/forms"
while read -r form; do
  op=$(echo "$form" | sed 's/^[A-Z]*(\([a-z0-9_]*\).*/\1/; s/.*HD_OP_\([a-z0-9_]*\).*/\1/')
  row=$(grep "^|.*\`$op\`" "$page")
  missing=
  for key in $(echo "$form" | grep -o '"[a-z_]*"' | tr -d '"'); do
    case $row in *"\`$key"*) ;; *) missing="$missing $key" ;; esac
  done
  [ -n "$row" ] && [ -z "$missing" ]
  result $? "$op and its settings are in the table" "row '$row', missing:$missing"
done <"$folder/forms"
echo "1..$count"
