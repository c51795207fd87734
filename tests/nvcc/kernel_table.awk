# Prints rows of a Markdown table of what kernels take of a card: awk -f kernel_table.awk FILE.ptx FILE.ptx.ptxas ..., of each
# PTX file what ptxas said of it next. A row is a kernel's name for an architecture, with the largest figures of all that
# have that name. Occupancy is how many of a multiprocessor's warps can be resident at most, by registers, shared memory
# and threads.
function name_of(mangled, at) {  # ...4cuda17attention_forwardI...: the name behind the last namespace
  if (!match(mangled, /4cuda[0-9]+/)) return mangled
  at = substr(mangled, RSTART + 5)
  match(at, /^[0-9]+/)
  return substr(at, RLENGTH + 1, substr(at, 1, RLENGTH) + 0)
}
function before(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0 }
function min(a, b) { return a < b ? a : b }
function larger(of, key, value) { if (value > of[key]) of[key] = value }

BEGIN {
  # Of a multiprocessor: bytes of shared memory; a block takes 1 KiB beside its own. CUDA's occupancy calculator.
  shared_bytes["sm_80"] = 164 * 1024; shared_bytes["sm_90a"] = shared_bytes["sm_100"] = 228 * 1024
  registers_of_a_quarter = 16384; most_warps = 64; most_blocks = 32
}
/^\.visible \.entry / { split($0, word, /entry |\(/); entry = word[2] }
/^\.maxntid / { sub(/,.*/, "", $2); threads_of[entry] = $2 + 0 }
/Compiling entry function/ {
  split($0, quoted, "'")
  kernel = quoted[2]; architecture = quoted[4]
  key = name_of(kernel) " " architecture
  ++variants[key]
  larger(threads, key, threads_of[kernel])
}
/Used [0-9]+ registers/ { larger(registers, key, before("registers")); larger(shared, key, before("bytes smem")) }
END {
  for (key in variants) {
    split(key, part, " ")
    warps = int((threads[key] + 31) / 32)
    if (!(part[2] in shared_bytes) || warps == 0 || registers[key] == 0) {
      print key ": no figures"
      exit 1
    }
    of_a_warp = int((registers[key] + 7) / 8) * 8 * 32
    blocks = min(most_blocks, int(4 * int(registers_of_a_quarter / of_a_warp) / warps))
    blocks = min(blocks, int(most_warps / warps))
    blocks = min(blocks, int(shared_bytes[part[2]] / (shared[key] + 1024)))
    printf "| %s | %s | %d | %d | %d | %d | %d %% |\n", part[1], part[2], variants[key], threads[key], registers[key],
           shared[key], 100 * blocks * warps / most_warps
  }
}
