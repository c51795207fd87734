# Reads what `ptxas -v` printed, one file per object, and prints a table. Exit status 1, with a sentence for each reason, if
# any function spills, a kernel of a file is not there for each of the architectures -v wanted="sm_80 sm_90a ...", or there
# is no kernel at all. Lines it does not know are passed over, but a kernel whose figures are missing is a failure too.

function complain(sentence) {
  print sentence
  bad = 1
}

# The figures of the kernel that was being read must be complete.
function close_kernel() {
  if (kernel != "" && (!has_spills || !has_registers)) complain(file ": " kernel " for " arch ": no figures")
  kernel = ""
}

# The number before `word` in this line, e.g. 40 for "Used 40 registers"; -1 if there is none.
function before(word) {
  return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : -1
}

BEGIN { wanted_count = split(wanted, wanted_arch, " ") }

FNR == 1 { close_kernel() }

/Compiling entry function '[^']+' for '[^']+'/ {
  close_kernel()
  split($0, quoted, "'")
  file = FILENAME; kernel = quoted[2]; arch = quoted[4]; name = kernel
  has_spills = has_registers = 0
  kernels[arch] += !((file, kernel, arch) in seen)
  seen[file, kernel, arch] = 1
  known[file, kernel] = 1
}

/Function properties for / { name = $NF }

/bytes spill stores/ {
  if (before("bytes spill stores") != 0 || before("bytes spill loads") != 0) {
    complain(FILENAME ": " name " for " arch ": spills: " $0)
  }
  if (before("bytes stack frame") > stack[arch]) stack[arch] = before("bytes stack frame")
  if (name == kernel) has_spills = 1
}

/Used [0-9]+ registers/ {
  if (before("registers") > registers[arch]) registers[arch] = before("registers")
  has_registers = 1
}

END {
  close_kernel()
  printf "%-10s %8s %14s %10s\n", "", "kernels", "max registers", "max stack"
  for (i = 1; i <= wanted_count; i++) {
    arch = wanted_arch[i]
    printf "%-10s %8d %14d %10d\n", arch, kernels[arch], registers[arch], stack[arch]
    if (kernels[arch] == 0) complain("no kernel for " arch)
    for (key in known) {
      split(key, part, SUBSEP)
      if (!((part[1], part[2], arch) in seen)) complain(part[1] ": " part[2] ": not there for " arch)
    }
  }
  if (wanted_count == 0) complain("no architecture is wanted")
  exit bad
}
