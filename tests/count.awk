# Reads what `ctest --verbose` printed: shows how each test ended, the output of those that failed, and as the last line
# `N passed, N failed`. A doctest executable counts as its test cases, any other test as one. An executable that fails
# counts as one failure at least, and so does one that ends before its summary; tests that never ended failed.
# Exit status 1 if any failed or none ran. -v unbuilt=1: the build failed, one failure more. Before that line the slowest
# ten tests are listed and, of -v built=<ninja's log>, the slowest ten objects, as they were built last.

/^[0-9]+: Test command: / { is_doctest[$1 + 0] = $0 ~ /\/test_[A-Za-z0-9_]+"?$/ }

/^[0-9]+: \[doctest\] test cases: / {
  split($0, part, "|")
  cases_passed[$1 + 0] = part[2] + 0
  cases_failed[$1 + 0] = part[3] + 0
  cases_skipped[$1 + 0] = part[4] + 0
}

/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
  print
  fflush()
  match($0, /#[0-9]+:/)
  id = substr($0, RSTART + 1, RLENGTH - 2) + 0
  split($1, progress, "/")
  total = progress[2] + 0
  ended++
  if (match($0, /[0-9.]+ sec/)) seconds[$4 == "" ? id : $4] = substr($0, RSTART, RLENGTH - 4) + 0
  ok = $0 ~ / Passed +[0-9.]+ sec/
  if ($0 ~ /\*\*\*Skipped/) {
    skipped++
  } else if (is_doctest[id] && id in cases_passed) {
    passed += cases_passed[id]
    skipped += cases_skipped[id]
    failed += (!ok && cases_failed[id] == 0) ? 1 : cases_failed[id]
  } else if (ok && !is_doctest[id]) {
    passed++
  } else {
    failed++
  }
  if (!ok) printf "%s", output[id]
  delete output[id]
  next
}

/^[0-9]+: / { output[$1 + 0] = output[$1 + 0] $0 "\n" }

# Prints the ten largest of values, in seconds.
function list_slowest(title, values, n, name, most) {
  for (n = 0; n < 10; n++) {
    most = ""
    for (name in values) if (most == "" || values[name] > values[most]) most = name
    if (most == "") break
    if (n == 0) print title
    printf "%8.1f s  %s\n", values[most], most
    delete values[most]
  }
}

# Lines of ninja's log: start and end in milliseconds, a time, an output, a hash. The last one of an output holds.
function read_built(file, line, part) {
  while ((getline line < file) > 0) {
    if (split(line, part, "\t") == 5 && part[4] ~ /\.o$/) compiled[part[4]] = (part[2] - part[1]) / 1000
  }
  close(file)
}

END {
  if (built != "") read_built(built)
  list_slowest("slowest to compile:", compiled)
  list_slowest("slowest to run:", seconds)
  failed += total - ended + unbuilt
  if (unbuilt) print "the build failed"
  if (total > ended) printf "%d tests never ended\n", total - ended
  if (skipped) printf "%d skipped\n", skipped
  printf "%d passed, %d failed\n", passed, failed
  exit failed > 0 || passed == 0
}
