# Makes one translation unit of several sources, each in a namespace of its own, so that names need not differ between
# them: awk -f room_unit.awk a.cpp b.cpp > unit.cpp
# What they include comes first, outside of all namespaces; where they ask for it, it is there already.
FNR == 1 {
  source[++count] = FILENAME
  folder = FILENAME
  sub(/[^\/]*$/, "", folder)
}
/^#include / {
  line = $0
  if (match(line, /"[^"]*"/)) {
    beside = folder substr(line, RSTART + 1, RLENGTH - 2)
    if ((getline ignored < beside) >= 0) line = "#include \"" beside "\""
    close(beside)
  }
  if (!seen[line]++) print line
}
END {
  for (i = 1; i <= count; ++i) printf "namespace unit_%d {\n#include \"%s\"\n}\n", i, source[i]
}
