# The pages that teach by examples: their options exist, and their digests are those of their commands.

load cli

PAGES="mnist how-many-threads course from-a-script"

@test "every command and option of the tutorials exists" {
  for page in $PAGES; do grep -hE '^    heddle [a-z]+ |`heddle [a-z]+ ' "$SRCDIR/docs/$page.md"; done |
    sed 's/^    //; s/.*`\(heddle [^`]*\)`.*/\1/' | sort -u >commands
  [ "$(wc -l <commands)" -ge 20 ]
  while read -r _ command rest; do
    "$HEDDLE" "$command" --help >help
    [ "$command" != bench ] || "$HEDDLE" bench "${rest%% *}" --help >help
    for option in $(grep -oE -- '--[a-z-]+' <<<"$rest"); do
      grep -q -- "$option\b" help || { echo "heddle $command has no $option"; false; }
    done
  done <commands
}

@test "the course's first two exercises give its digests and its elements" {
  page=$SRCDIR/docs/course.md
  sed -n '/^## 1/,/^## 3/s/^    \(heddle .*\)/\1/p' "$page" >commands
  [ "$(wc -l <commands)" -eq 6 ]
  while read -r _ command; do
    "$HEDDLE" $command >>out 2>&1 </dev/null || [ $? -eq 3 ] # bisect has found a difference
  done <commands
  [ "$(grep -cx "$(sed -n 's/^    \([0-9a-f]\{64\}\)$/\1/p' "$page" | head -n 1)" out)" -eq 2 ]
  for line in 'settings ' 'computed by ' 'a   ' 'b   '; do
    expected=$(sed -n "s/^    \($line.*\)/\1/p" "$page")
    [ -n "$expected" ]
    grep -Fqx "$expected" out
  done
}
