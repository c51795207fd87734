#!/usr/bin/env python3
"""Conversations to shards that train_draft learns from: tokens, and which of them an assistant said.

Each line of the input is {"messages": [{"role": "user", "content": "..."}, ...]}. A shard is a safetensors file with
input_ids (int32), loss_mask (uint8, 1 where an assistant speaks) and seq_lens (int64, one conversation each).

--tokenizer bytes needs nothing but Python: a message is "role: ", its content and a newline (or --head and --tail), as
UTF-8, and an assistant's content and newline are to be learnt. --tokenizer FOLDER is one of Hugging Face, read by
`transformers`, with a chat template. Where the template marks what an assistant says, these marks are taken. Else each
conversation is rendered up to every message of an assistant, with and without it; where one is not the beginning of the
next, which tokens the message has is not known, and the conversation is refused.

--tokenizer FILE has a line "base64-of-a-token rank" for each token (tiktoken.model), and is read by `tiktoken`. It says
neither how text is split before it is merged nor what stands around a message: --pattern, --head, --tail. Special
tokens are those that tokenizer_config.json beside it names; what somebody wrote in a message never becomes one of them.
"""

import argparse
import array
import json
import os
import re
import shutil
import sys


class Refused(Exception):
    """What was found in a file; one line."""


class Bytes:
    """Tokens are the bytes of UTF-8."""

    def __init__(self, head, tail):
        self.head, self.tail = head, tail

    def text(self, text):
        return list(text.encode())

    def around(self, text):
        return self.text(text)

    def encode(self, messages):
        ids, mask = [], []
        for message in messages:
            head = self.around(self.head.replace("{role}", message["role"]))
            body = self.text(message["content"]) + self.around(self.tail)
            ids += head + body
            mask += [0] * len(head) + [int(message["role"] == "assistant")] * len(body)
        return ids, mask


class Ranks(Bytes):
    """Tokens of a file of tiktoken's. Head and tail may have special ones, and are split apart from the content."""

    def __init__(self, file, pattern, head, tail):
        super().__init__(head, tail)
        try:
            from tiktoken import Encoding
            from tiktoken.load import load_tiktoken_bpe
        except ImportError as error:
            raise Refused(f"--tokenizer {file}: Python has no package tiktoken, which reads it") from error
        if pattern is None:
            raise Refused(f"--tokenizer {file}: it does not say how text is split: no --pattern")
        try:
            ranks = load_tiktoken_bpe(file)
            self.config = os.path.join(os.path.dirname(file), "tokenizer_config.json")
            special = self.special_tokens(self.config)
            self.encoding = Encoding(name=file, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        except ValueError as error:
            raise Refused(f"--tokenizer {file}: {error}") from error

    @staticmethod
    def special_tokens(file):
        if not os.path.exists(file):
            return {}
        with open(file, encoding="utf-8") as text:
            named = json.load(text).get("added_tokens_decoder", {})
        return {token["content"]: int(id) for id, token in named.items()}

    def text(self, text):
        return self.encoding.encode_ordinary(text)

    def around(self, text):
        for name in re.findall(r"<\|.*?\|>", text):
            if name not in self.encoding.special_tokens_set:
                raise Refused(f"--head, --tail: {name} is no special token of {self.config}")
        return self.encoding.encode(text, allowed_special="all")


class HuggingFace:
    """A tokenizer of Hugging Face's in a folder, with its chat template."""

    def __init__(self, folder):
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise Refused(f"--tokenizer {folder}: Python has no package transformers, which reads it") from error
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        template = getattr(self.tokenizer, "chat_template", None)
        if not template:
            raise Refused(f"--tokenizer {folder}: it has no chat template")
        self.marks = "{% generation" in str(template) or "{%- generation" in str(template)

    def render(self, messages, prompt=False):
        return list(self.tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=prompt,
                                                       return_dict=True)["input_ids"])

    def encode(self, messages):
        if self.marks:
            made = self.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True,
                                                      return_assistant_tokens_mask=True)
            return list(made["input_ids"]), list(made["assistant_masks"])
        ids = self.render(messages)
        mask = [0] * len(ids)
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before, after = self.render(messages[:i], prompt=True), self.render(messages[:i + 1])
            if after[:len(before)] != before or ids[:len(after)] != after:
                raise Refused(f"message {i}: the template renders it in another way when more follows")
            mask[len(before):len(after)] = [1] * (len(after) - len(before))
        return ids, mask


def checked(line):
    """The messages of a line."""
    try:
        document = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"no JSON: {error}") from error
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not messages:
        raise Refused('no list "messages"')
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise Refused(f"message {i}: no object")
        for field in ("role", "content"):
            if not isinstance(message.get(field), str):
                raise Refused(f'message {i}: "{field}" is no string')
    return messages


def write_shard(path, ids, mask, lengths):
    """A safetensors file."""
    header, offset = {}, 0
    columns = [("seq_lens", "I64", lengths), ("input_ids", "I32", ids), ("loss_mask", "U8", mask)]
    for name, dtype, values in columns:
        end = offset + len(values) * values.itemsize
        header[name] = {"dtype": dtype, "shape": [len(values)], "data_offsets": [offset, end]}
        offset = end
        if sys.byteorder == "big":
            values.byteswap()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, _, values in columns:
            values.tofile(out)
        out.flush()
        os.fsync(out.fileno())


class Shards:
    """Conversations as they come, a file for each so many tokens."""

    def __init__(self, folder, tokens):
        self.folder, self.tokens, self.count = folder, tokens, 0
        self.totals = [0, 0, 0]  # conversations, tokens, tokens to learn
        self.begin()

    def begin(self):
        self.ids, self.mask, self.lengths = array.array("i"), array.array("B"), array.array("q")

    def add(self, ids, mask):
        if self.ids and len(self.ids) + len(ids) > self.tokens:
            self.end()
        self.ids.extend(ids)
        self.mask.extend(mask)
        self.lengths.append(len(ids))
        self.totals = [a + b for a, b in zip(self.totals, (1, len(ids), sum(mask)))]

    def end(self):
        if not self.lengths:
            return
        write_shard(os.path.join(self.folder, f"{self.count:05}.safetensors"), self.ids, self.mask, self.lengths)
        self.count += 1
        self.begin()


def tokenizer_of(options):
    head = "{role}: " if options.head is None else options.head
    tail = "\n" if options.tail is None else options.tail
    file = options.tokenizer != "bytes" and not os.path.isdir(options.tokenizer)
    if options.pattern is not None and not file:
        raise Refused(f"--pattern: it with --tokenizer {options.tokenizer}, which is no file of ranks")
    if file:
        return Ranks(options.tokenizer, options.pattern, head, tail)
    if options.tokenizer == "bytes":
        return Bytes(head, tail)
    if options.head is not None or options.tail is not None:
        raise Refused(f"--head, --tail: with --tokenizer {options.tokenizer}, which has a chat template")
    return HuggingFace(options.tokenizer)


def prepare(options):
    tokenizer = tokenizer_of(options)
    if os.path.exists(options.out) and (not os.path.isdir(options.out) or os.listdir(options.out)):
        raise Refused(f"--out {options.out}: something is there already")
    temporary = options.out.rstrip("/") + ".new"  # becomes the folder as a whole
    os.makedirs(temporary)
    try:
        shards = Shards(temporary, options.shard_tokens)
        with open(options.messages, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    shards.add(*tokenizer.encode(checked(line)))
                except Refused as error:
                    raise Refused(f"{options.messages}: line {number}: {error}") from error
        shards.end()
        os.rename(temporary, options.out)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    conversations, tokens, learnt = shards.totals
    print(f"{conversations} conversations, {tokens} tokens, {learnt} of them to learn, in {shards.count} shards")


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", required=True, help="JSON lines of conversations")
    parser.add_argument("--out", required=True, help="new folder for the shards, which is there as a whole or not at all")
    parser.add_argument("--tokenizer", default="bytes",
                        help="bytes, the folder of a Hugging Face tokenizer, or a file of tiktoken's [bytes]")
    parser.add_argument("--pattern", help="of a file of tiktoken's: the regular expression that splits text")
    parser.add_argument("--head", help='of bytes and files: what stands before a message, {role} in it ["{role}: "]')
    parser.add_argument("--tail", help='and behind it, to be learnt where an assistant speaks [a newline]')
    parser.add_argument("--shard-tokens", type=positive, default=1 << 24,
                        help="tokens of a shard, but for a conversation that has more [16777216]")
    try:
        prepare(parser.parse_args())
    except (Refused, OSError) as error:
        print(f"prepare_data: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
