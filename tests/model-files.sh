#!/bin/sh
# TAP: the examples of docs/model-files.md are models.
. "$SRCDIR/tests/tap.sh"
page=$SRCDIR/docs/model-files.md

# Example N goes to N.yaml.
awk -v folder="$folder" '/^```yaml/ { n++; inside = 1; next } /^```/ { inside = 0 }
  inside { print >(folder "/" n ".yaml") }' "$page"
for example in "$folder"/*.yaml; do
  said=$("$HEDDLE" summary --model "$example" 2>&1 >/dev/null)
  result $? "the example '$(sed -n 's/^model: //p' "$example")' is a model" "$said"
done
echo "1..$count"
