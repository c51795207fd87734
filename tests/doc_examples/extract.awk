# One source of all C++ examples in the comments of headers and on pages (*.md). Code stands between ```cpp and ```;
# formulas, tables and the like between ```text and ```, pages may also have ```sh, ```cmake and ```python. Any other form of a
# block is an error, so that no example is left out.
#
# An example is what may stand in a namespace after `using namespace k3spec;`, or (one of all) a whole program. Includes
# are moved to the top, `#pragma once` is left out. What begins with `// examples/` is a program that stands there
# (tests/first_programs_test.sh). -v output=<file>, and -v elsewhere=<file>: a page whose examples are tested elsewhere.

function fault(sentence) {
  print FILENAME ":" FNR ": " sentence > "/dev/stderr"
  failed = 1
}

function finish_comment() {
  if (inside) fault("a code block does not end")
  inside = hanging = 0
}

function begin_block(language) {
  inside = 1
  code = language == "cpp" && FILENAME !~ elsewhere_at_end
  is_program = 0
  if (language !~ (page ? "^(cpp|text|sh|cmake|python)$" : "^(cpp|text)$")) fault("a code block in `" language "`")
  example = "#line " FNR + 1 " \"" FILENAME "\"\n"
}

function in_block(line) {
  if (line ~ /^\/\/ examples\/[^ ]*\.cpp$/) code = 0
  if (line ~ /^ *# *include/) {
    includes = includes line "\n"
    line = ""
  }
  if (line ~ /^ *# *pragma once/) line = ""
  if (line ~ /^int main\(/) is_program = 1
  example = example line "\n"
}

function end_block() {
  inside = 0
  if (!code) return
  count++
  if (!is_program) {
    examples = examples "\nnamespace example_" count " {\nusing namespace k3spec;\n" example "}\n"
  } else if (program == "") {
    program = example
  } else {
    fault("a second whole program")
  }
}

BEGIN { elsewhere_at_end = elsewhere == "" ? "^$" : elsewhere "$" }
FNR == 1 {
  finish_comment()
  page = FILENAME ~ /\.md$/
}
# What a comment says, without its slashes and a blank. What stands outside of comments is no text.
{
  line = $0
  if (!page) {
    if (line ~ /^ *(\/\*[*!]|\/\/!)/) fault("a comment for the documentation begins with ///")
    if (line !~ /^ *\/\/\/([^\/<]|$)/) {
      finish_comment()
      next
    }
    sub(/^ *\/\/\/ ?/, "", line)
  }
}
line ~ /^ *(```|~~~)/ {
  if (inside) {
    end_block()
  } else {
    sub(/^ *(```|~~~)/, "", line)
    begin_block(line)
  }
  next
}
inside {
  in_block(line)
  next
}
line ~ /[\\@](code|verbatim)/ { fault("code stands between ```cpp and ```, other text between ```text and ```") }
# An item of a list, a command and `defines:` go on with indented lines; else such lines are a block, or run together.
line ~ /^ *([-*+] |[0-9]+\. |[\\@][a-z]|defines:)/ {
  hanging = 1
  next
}
line ~ /^ / && !hanging { fault("an indented line; code stands between ```cpp and ```, other text between ```text and ```") }
line ~ /^([^ ]|$)/ { hanging = 0 }
END {
  finish_comment()
  if (failed) exit 1
  printf "%s#include <k3spec/all.hpp>\n%s\n%s", includes, examples, program > (output == "" ? "/dev/stdout" : output)
}
