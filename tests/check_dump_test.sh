#!/usr/bin/env bash
# PyTorch modules, dumped by examples/dump_module.py, compared with this library's layers: README.md's own lines, an MLP
# with biases, an activation of a user's, and three mistakes, each of which the table names. $1: 02_check_dump,
# $2: dumped_modules.
program="$1"
modules="$2"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"
root="$PWD"

block() {  # language
  awk -v section="Numbers against your PyTorch module" -v language="$1" -v number=1 -f tests/install/blocks.awk README.md
}
expect 1 "nothing.safetensors: found No such file" "$dir/nothing.safetensors"
expect 0 "5 of 5 ok"  # the bundled dump

python="$(python_with "torch")"
if [[ -z "$python" ]]; then
  echo "python3 with torch is not there: nothing was dumped"
  exit 77
fi

block python >"$dir/readme.py"
(cd "$dir" && PYTHONPATH="$root/examples" "$python" readme.py) || fail "README.md's Python fails"
expect 0 "5 of 5 ok" "$dir/mlp.safetensors"
"$python" tests/reference/dumped_modules.py examples "$dir" || fail "dumped_modules.py fails"
expect 1 "near it are" "$dir/own.safetensors"

compared() {  # status, module, mistake; the table is in `table`
  table="$("$modules" "$2" "$dir/$2.safetensors" "$3" 2>&1)"
  local found=$?
  [[ $found -eq $1 ]] || fail "dumped_modules $2 $3: found status $found and: $table; wanted status $1"
}
row() {  # the beginning of a line, and a part of it
  local line
  line="$(grep -E "^$1 " <<<"$table")" && [[ "$line" == *"${2:-}"* ]] || fail "no row '$1' with '${2:-}' in: $table"
}
compared 0 plain ""
row 'ok +grad\.param\.fc1\.bias' ' F64 '
compared 0 bfloat16 ""
row 'ok +grad\.param\.fc1\.bias' ' BF16 '
compared 0 own ""
# Behind what is wrong all is bad; the first bad row is where it is.
compared 1 own eps
row 'ok +param\.proj\.weight'
row 'BAD +sub\.norm\.output\.0' '[0, 0, 0]: found'
compared 1 own transpose
row 'ok +sub\.norm\.output\.0'
row 'BAD +param\.proj\.weight' '[0, 1]: found'
row 'BAD +param\.proj\.weight' 'it is the transpose'
compared 1 own mask
row 'ok +sub\.proj\.output\.0'
row 'BAD +input\.mask' '[0, 3]: found 1, wanted 0'
row 'BAD +output\.0' '[0, 3, 0]: found'
compared 1 own forgotten
row 'BAD +grad\.input\.0' 'never compared'

# Anything within tuples and dicts, what is called twice, what does not matter, what is written into, every type.
cat >"$dir/odd.py" <<'END'
import torch


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.unused = torch.nn.Parameter(torch.ones(2))
        self.scale = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.register_buffer("seen", torch.ones(2, dtype=torch.bool))

    def forward(self, x, ids, more=None):
        x *= 2
        y = self.inner(self.inner(x))
        return {"state": y * self.scale, "pair": (ids, more["key"][0] + y.sum())}


def make():
    return Odd(), (torch.ones(4, 3), torch.arange(4)), {"more": {"key": [torch.tensor(1.0, dtype=torch.float16)]}}
END
odd() { "$python" examples/dump_module.py "$dir/odd.py:make" "$@"; }
odd "$dir/odd.safetensors" --submodules inner --seed 3 || fail "dump_module.py fails"
header="$(head -c 20000 "$dir/odd.safetensors" | tr -d '\0 ')"
for name in input.0 input.1 input.more.key.0 output.state output.pair.0 output.pair.1 d_output.state d_output.pair.1 \
  param.unused param.scale buffer.seen grad.input.0 grad.input.more.key.0 grad.param.inner.weight grad.param.unused \
  sub.inner.input.0 sub.inner.output.0 sub.inner.grad.output.0 'sub.inner#1.grad.output.0'; do
  [[ "$header" == *"\"$name\":{"* ]] || fail "no $name in: $header"
done
[[ "$header" == *'"param.scale":{"dtype":"BF16"'* && "$header" == *'"input.more.key.0":{"dtype":"F16","shape":[]'* ]] ||
  fail "the types are not kept: $header"
[[ "$header" != *'d_output.pair.0'* ]] || fail "a gradient of integers"
cp "$dir/odd.safetensors" "$dir/again.safetensors"
odd "$dir/bare.safetensors" --no-backward || fail "dump_module.py --no-backward fails"
! grep -aq 'grad\.\|d_output' "$dir/bare.safetensors" || fail "gradients, though none were asked for"
! odd "$dir/odd.safetensors" --submodules outer 2>"$dir/log" || fail "no submodule outer, but dumped"
grep -q "found 'outer', wanted one of inner" "$dir/log" || fail "not told: $(<"$dir/log")"
cmp "$dir/odd.safetensors" "$dir/again.safetensors" || fail "a dump that failed wrote"
