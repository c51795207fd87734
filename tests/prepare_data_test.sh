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

# A file of ranks, in which a byte's rank is 300 less the byte, with special tokens beside it.
mkdir -p "$dir/python/tiktoken" "$dir/ranks"
cat >"$dir/python/tiktoken/__init__.py" <<'END'
import re

class Encoding:
    def __init__(self, name, pat_str, mergeable_ranks, special_tokens):
        if pat_str != "[a-z]+|.":
            raise ValueError(f"pattern {pat_str}")
        self.ranks, self.special, self.special_tokens_set = mergeable_ranks, special_tokens, set(special_tokens)

    def encode_ordinary(self, text):
        return [self.ranks[bytes([b])] for b in text.encode()]

    def encode(self, text, allowed_special):
        ids = []
        for part in re.split("(" + "|".join(map(re.escape, self.special)) + ")", text):
            ids += [self.special[part]] if part in self.special else self.encode_ordinary(part)
        return ids
END
cat >"$dir/python/tiktoken/load.py" <<'END'
import base64

def load_tiktoken_bpe(file):
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(file))}
END
python3 -c 'import base64
for b in range(256): print(base64.b64encode(bytes([b])).decode(), 300 - b)' >"$dir/ranks/tiktoken.model"
echo '{"added_tokens_decoder":{"7":{"content":"<|user|>"},"8":{"content":"<|assistant|>"},"9":{"content":"<|end|>"}}}' \
  >"$dir/ranks/tokenizer_config.json"
printf '{"messages":[%s,%s]}\n' "$(message user 'a<|end|>')" "$(message assistant bc)" >"$dir/short.jsonl"
ranks=(--messages "$dir/short.jsonl" --out "$dir/ranks.out" --tokenizer "$dir/ranks/tiktoken.model")
expect 1 "tiktoken.model: it does not say how text is split: no --pattern" "${ranks[@]}"
expect 1 "tiktoken.model: pattern x" "${ranks[@]}" --pattern x
ranks+=(--pattern '[a-z]+|.')
expect 1 "line 1: --head, --tail: <|e|> is no special token of $dir/ranks/tokenizer_config.json" \
  "${ranks[@]}" --tail '<|e|>'
expect 0 "1 conversations, 14 tokens, 3 of them to learn" "${ranks[@]}" --head '<|{role}|>' --tail '<|end|>'
found="$(tail -c $((14 * 5)) "$dir/ranks.out/00000.safetensors" | od -An -v -t d4 -N 56 | tr -s ' \n' ' ')"
# <|user|> a and seven bytes that somebody wrote, <|end|>, <|assistant|> b c <|end|>
[[ "$found" == " 7 203 240 176 199 190 200 176 238 9 8 202 201 9 " ]] || fail "found$found"
mask="$(tail -c 14 "$dir/ranks.out/00000.safetensors" | od -An -v -t u1 | tr -s ' \n' ' ')"
[[ "$mask" == " 0 0 0 0 0 0 0 0 0 0 0 1 1 1 " ]] || fail "found$mask"
expect 1 "--pattern: it with --tokenizer bytes, which is no file of ranks" --messages "$dir/short.jsonl" \
  --out "$dir/new" --pattern x
expect 1 "--head, --tail: with --tokenizer $dir/plain, which has a chat template" --messages "$dir/short.jsonl" \
  --out "$dir/new" --tokenizer "$dir/plain" --tail x

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
