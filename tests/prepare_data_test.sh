#!/usr/bin/env bash
# What examples/prepare_data.py makes of conversations, and that train_draft learns from it. $1: train_draft.
program=prepare_data
train_draft="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"
if ! command -v python3 >/dev/null; then
  echo "python3 is not there: nothing was tried"
  exit 77
fi
prepare_data() { python3 examples/prepare_data.py "$@"; }

message() { printf '{"role":"%s","content":"%s"}' "$1" "$2"; }
for i in {1..40}; do
  printf '{"messages":[%s,%s,%s]}\n' "$(message user "Tell me more, $i")" \
    "$(message assistant "Nothing of $i is known to me, nor of $((i * 7)).")" "$(message user 'Th\u00e4nks')"
done >"$dir/talk.jsonl"
expect 0 "40 conversations, " --messages "$dir/talk.jsonl" --out "$dir/shards" --shard-tokens 1000
[[ "$output" =~ ", "([0-9]+)" tokens, "([0-9]+)" of them to learn, in "([0-9]+)" shards" ]] || fail "$output"
tokens=${BASH_REMATCH[1]} learnt=${BASH_REMATCH[2]}
[[ "$(ls "$dir/shards" | wc -l)" == "${BASH_REMATCH[3]}" && ${BASH_REMATCH[3]} -gt 3 ]] || fail "$(ls "$dir/shards")"
said="$(python3 - "$dir/talk.jsonl" <<'END'
import json, sys
texts = [m["content"] for line in open(sys.argv[1]) for m in json.loads(line)["messages"] if m["role"] == "assistant"]
print(sum(len(text.encode()) + 1 for text in texts))
END
)"
[[ "$learnt" == "$said" ]] || fail "found $learnt tokens to learn, wanted $said"
out="$("$train_draft" --target "$tiny" --train "$dir/shards" --heldout "$dir/shards" --out "$dir/run" --batch 2 --length 48 \
  --ttt-steps 2 --eval-windows 2 --sampling packed --packing apart --epochs 0.1 --progress none 2>&1)" || fail "$out"
[[ "$out" == "training data: $tokens tokens, $learnt of them to learn, in 40 documents; "* ]] || fail "$out"

# A template that marks what an assistant says, one that does not, and one that changes what came before.
mkdir "$dir/python" "$dir/marked" "$dir/plain" "$dir/odd" "$dir/none"
cat >"$dir/python/transformers.py" <<'END'
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, folder, local_files_only):
        self, self.kind = cls(), folder.rsplit("/", 1)[1]
        self.chat_template = {"marked": "{% generation %}", "plain": "x", "odd": "x", "none": None}[self.kind]
        return self

    def apply_chat_template(self, messages, tokenize, return_dict, add_generation_prompt=False,
                            return_assistant_tokens_mask=False):
        ids, mask = [], []
        for message in messages:
            text = message["content"].encode()
            speaks = message["role"] == "assistant"
            ids += [256 if speaks else 257] + list(text)
            mask += [0] + [int(speaks)] * len(text)
        if add_generation_prompt:
            ids.append(256)
        if self.kind == "odd":
            ids.insert(0, len(messages))
        return {"input_ids": ids, "assistant_masks": mask}
END
export PYTHONPATH="$dir/python"
for kind in marked plain; do
  expect 0 "40 conversations, " --messages "$dir/talk.jsonl" --out "$dir/$kind.out" --tokenizer "$dir/$kind"
  [[ "$output" == *" $((learnt - 40)) of them to learn, in 1 shards" ]] || fail "$kind: $output"
done
cmp "$dir/marked.out/00000.safetensors" "$dir/plain.out/00000.safetensors" || fail "the mask of turns is another"
expect 1 "talk.jsonl: line 1: message 1: the template renders it in another way when more follows" \
  --messages "$dir/talk.jsonl" --out "$dir/odd.out" --tokenizer "$dir/odd"
expect 1 "none: it has no chat template" --messages "$dir/talk.jsonl" --out "$dir/none.out" --tokenizer "$dir/none"

refuse() {  # part of what is said, a line
  { head -n 2 "$dir/talk.jsonl"; echo "$2"; } >"$dir/bad.jsonl"
  expect 1 "bad.jsonl: line 3: $1" --messages "$dir/bad.jsonl" --out "$dir/bad"
  [[ ! -e "$dir/bad" && ! -e "$dir/bad.new" ]] || fail "a refused run left something: $(ls "$dir")"
}
refuse "no JSON: " '{"messages":['
refuse "no JSON: " ''
refuse 'no list "messages"' '[]'
refuse 'no list "messages"' '{"messages":[]}'
refuse "message 0: no object" '{"messages":[3]}'
refuse 'message 0: "content" is no string' '{"messages":[{"role":"user"}]}'
refuse 'message 0: "role" is no string' '{"messages":[{"role":1,"content":"a"}]}'
expect 1 "shards: something is there already" --messages "$dir/talk.jsonl" --out "$dir/shards"
expect 1 "No such file or directory" --messages "$dir/nowhere" --out "$dir/new"
expect 2 "--shard-tokens: invalid positive value: '0'" --messages "$dir/talk.jsonl" --out "$dir/new" --shard-tokens 0
