# What users get told: one line, the right exit code.

@test "--version names the version" {
  run "$HEDDLE" --version
  [ "$status" -eq 0 ]
  [[ "$output" == heddle\ * ]]
}

@test "an unknown command is wrong usage" {
  run "$HEDDLE" weave
  [ "$status" -eq 2 ]
  [ "${#lines[@]}" -eq 1 ]
}
