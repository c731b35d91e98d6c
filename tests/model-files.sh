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
for rule in $(grep -lE '\.(most|loss) = ' "$SRCDIR"/src/op/*/*.c); do
  op=$(basename "$rule" .c)
  row=$(grep "^|.*\`$op\`" "$page")
  missing=
  for key in $(sed -n 's/.*HD_SETTING("\([a-z_]*\)".*/\1/p; s/.*HD_SHARE_SETTING.*/share/p; s/.*\.weights = "\([a-z_]*\)".*/\1/p' "$rule"); do
    case $row in *"\`$key"*) ;; *) missing="$missing $key" ;; esac
  done
  [ -n "$row" ] && [ -z "$missing" ]
  result $? "$op and its settings are in the table" "row '$row', missing:$missing"
done
[ "${op-}" ] || { echo "Bail out! found no layers in src/op"; exit 1; }
echo "1..$count"
