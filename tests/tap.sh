# What tests in shell share: a folder that goes at the end, results as TAP, values out of JSON. Sourced.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-test.XXXXXX")
trap 'rm -rf "$folder"' EXIT
count=0
depth=${HD_DEPTH:-1} # 1: make check, 2: make check-all, 3: make check-long and check-bits

# result WHAT NAME [DETAIL]: WHAT is pass, fail, skip or the exit status of a command; DETAIL is what a failure tells.
result() {
  count=$((count + 1))
  case $1 in
  pass | 0) echo "ok $count - $2" ;;
  skip) echo "ok $count # SKIP $2" ;;
  *) echo "not ok $count - $2"; printf '%s\n' "${3-}" | sed 's/^/# /' ;;
  esac
}

# in_line LINE KEY: a key of the JSON in it, in $value.
in_line() {
  value=
  case $1 in *"\"$2\": "*) value=${1##*"\"$2\": "} value=${value#\"} value=${value%%[,\"\}]*} ;; esac
}

# value KEY FILE: a key of the JSON in the last line.
value() {
  in_line "$(tail -n 1 "$2")" "$1"
  echo "$value"
}

# values KEY...: those of $folder/json, where tests keep a run's last line.
values() {
  found= line=$(tail -n 1 "$folder/json")
  for key; do
    in_line "$line" "$key"
    found="$found${found:+ }$value"
  done
  echo "$found"
}
