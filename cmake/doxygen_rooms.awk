# doxygen's input filter: makes a topic of every room, and puts into it what the room's headers hold. The rooms and
# their paragraphs are the lines `// <room>: <paragraph>` of the umbrella headers. The rooms' lines keep their numbers.

function open_topic(always) { return always || depth ? "/** \\addtogroup " topic " */ /**@{*/ " : "" }
function close_topic() { return depth ? "/**@}*/ " : "" }

FNR == 1 {
  path = FILENAME
  sub(/^(.*\/)?include\/k3spec\//, "", path)
  topic = path ~ /^backend\/cuda\// ? "backend_cuda" : path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
  depth = 0
}
path == "all.hpp" && FNR == 1 {
  print "/** \\dir bench\nWhat measures it.\n*/\n/** \\dir include\nWhat is installed.\n*/\n/** \\dir include/k3spec\nThe library, in a folder for every room.\n*/"
}
topic == "" && /^\/\/ [a-z\/]+: / {
  room = $2
  sub(/:$/, "", room)
  parent = id = room
  gsub(/\//, "_", id)
  if (!sub(/\/.*/, "", parent)) parent = ""
  sub(/^\/\/ [a-z\/]+: /, "")
  print "/** \\defgroup " id " " room
  if (parent != "") print "\\ingroup " parent
  paragraph = toupper(substr($0, 1, 1)) substr($0, 2) "."
  print paragraph "\n*/\n/** \\dir include/k3spec/" room "\n" paragraph "\n*/"
  next
}
topic == "" { print; next }
# The header's own page.
FNR == 1 && /^#pragma once$/ {
  print open_topic(1)
  in_head = 1
  next
}
in_head && !/^\/\/\// {
  in_head = 0
  print "/**@}*/ " $0
  next
}
in_head && sub(/^\/\/\/ defines: /, "/// \\n **Defines:** ") { print; next }
# What stands in its namespaces, but not these themselves.
/^ *(inline )?namespace [^=]*\{$/ {
  line = close_topic() $0
  depth++
  print line " " open_topic()
  next
}
/^ *\}  \/\/ namespace/ {
  line = close_topic() "} "
  depth--
  print line open_topic()
  next
}
{ print }
