"""Train the model and write its logs: `python -m benchmarks.language_model` (some minutes on one core).

The text comes with Python: the topics of `help()` and the docstrings of the standard library, one document per topic
or module. Documents are divided by a hash of their names: the model is trained on some, the temperature is fitted on
others, and all logs are of a third part. The logs have the form in which servers write them.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import math
import platform
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
CONTEXT, WIDTH, LAYERS, HEADS = 128, 128, 2, 4
STEPS, BATCH = 1500, 32
SHORTEST, TRAINED, LONGEST = 600, 2000, 320  # characters of a document: at least, in training, and predicted
QUESTIONS, SAMPLES, PROMPT, LONGEST_WORD = 400, 20, 64, 16
TOP = 3
PACKAGES = ("asyncio", "collections", "concurrent/futures", "email", "http", "importlib", "json", "logging", "unittest")


def documents() -> dict[str, str]:
    """Topics of `help()`, and docstrings by module, read without running anything."""
    from pydoc_data.topics import topics

    found = {f"topic {name}": text for name, text in topics.items()}
    stdlib = Path(sysconfig.get_path("stdlib"))
    for path in sorted([*stdlib.glob("*.py"), *(p for name in PACKAGES for p in (stdlib / name).glob("*.py"))]):
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        nodes = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef))]
        texts = [text for node in nodes if (text := ast.get_docstring(node))]
        found[f"module {'.'.join(path.relative_to(stdlib).with_suffix('').parts)}"] = "\n\n".join(texts)
    return {name: text for name, text in found.items() if len(text) >= SHORTEST and text.isascii()}


def part(name: str) -> str:
    """The part of a document, by its name alone."""
    number = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10
    return "test" if number < 4 else "validation" if number < 5 else "train"


class Block(nn.Module):
    """Attention to what came before, and a layer on top."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = self.mix(self.norms[0](x)).reshape(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.dense(self.norms[1](x))


class Model(nn.Module):
    """Logits of the next character at every position."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def train(text: Tensor, vocabulary: int) -> Model:
    """A model of the text, by Adam with a falling learning rate."""
    model = Model(vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS, pct_start=0.1)
    began = time.process_time()
    for step in range(STEPS):
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([text[i : i + CONTEXT + 1] for i in starts])
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: {loss.item():.3f} nats, {time.process_time() - began:.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def logits_of(model: Model, tokens: Tensor) -> Tensor:
    """Logits of every character of a document but the first, each from the 64 to 127 characters before it."""
    found = [model(tokens[None, : min(CONTEXT, len(tokens) - 1)])[0]]
    for start in range(CONTEXT // 2, len(tokens) - CONTEXT // 2 - 1, CONTEXT // 2):
        found.append(model(tokens[None, start : start + CONTEXT][:, : len(tokens) - 1 - start])[0, CONTEXT // 2 :])
    return torch.cat(found)


@torch.no_grad()
def sample(model: Model, prompts: Tensor, letters: Tensor, greedy: bool) -> tuple[list[list[int]], list[list[Tensor]]]:
    """Characters of one word after each prompt, to its first character that is no letter; and their distributions."""
    words: list[list[int]] = [[] for _ in prompts]
    logs: list[list[Tensor]] = [[] for _ in prompts]
    open_ = list(range(len(prompts)))
    rows = prompts.clone()
    for _ in range(LONGEST_WORD):
        log = torch.cat([model(chunk)[:, -1].log_softmax(-1) for chunk in rows.split(256)])
        chosen = log.argmax(-1) if greedy else torch.multinomial(log.exp(), 1)[:, 0]
        for i, token, dist in zip(open_, chosen.tolist(), log, strict=True):
            words[i].append(token)
            logs[i].append(dist)
        going = letters[chosen]
        open_ = [i for i, on in zip(open_, going.tolist(), strict=True) if on]
        rows = torch.cat([rows, chosen[:, None]], 1)[going]
        if not open_:
            break
    return words, logs


def content(text: str, token: int, log: Tensor) -> dict[str, Any]:
    """One token as chat servers log it."""
    top = log.topk(TOP)
    tops = [{"token": text[j], "logprob": round(v, 4)} for j, v in zip(top[1].tolist(), top[0].tolist(), strict=True)]
    return {"token": text[token], "logprob": round(log[token].item(), 4), "top_logprobs": tops}


def echoed(name: str, chars: str, tokens: list[int], logs: Tensor) -> dict[str, Any]:
    """One document as completion servers log it with echo: the first token has no probability."""
    found = [content(chars, token, log) for token, log in zip(tokens[1:], logs, strict=True)]
    return {
        "id": name,
        "choices": [
            {
                "logprobs": {
                    "tokens": [chars[t] for t in tokens],
                    "token_logprobs": [None, *(one["logprob"] for one in found)],
                    "top_logprobs": [None, *({t["token"]: t["logprob"] for t in one["top_logprobs"]} for one in found)],
                }
            }
        ],
        "usage": {"prompt_tokens": len(tokens), "completion_tokens": 0},
    }


def write(name: str, lines: list[dict[str, Any]]) -> None:
    """Lines of JSON, packed; the same lines give the same bytes."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (HERE / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def questions(texts: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Document, prompt and the word that follows it, of several letters."""
    for name, text in texts.items():
        for match in re.finditer(r"(?<= )[a-z]{3,15}(?=[^A-Za-z])", text):
            if match.start() >= PROMPT:
                yield name, text[match.start() - PROMPT : match.start()], match.group()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    began = time.process_time()
    texts = documents()
    chars = "".join(sorted({char for text in texts.values() for char in text}))
    index = {char: i for i, char in enumerate(chars)}
    parts = {p: {n: t for n, t in texts.items() if part(n) == p} for p in ("train", "validation", "test")}

    def encode(text: str) -> Tensor:
        return torch.tensor([index[char] for char in text])

    text = encode("\n\n".join(text[:TRAINED] for text in parts["train"].values()))
    print({p: (len(t), sum(map(len, t.values()))) for p, t in parts.items()}, len(chars), flush=True)
    model = train(text, len(chars))
    trained = time.process_time() - began

    tested = {name: text[:LONGEST] for name, text in parts["test"].items()}
    valid = [encode(text[:LONGEST]) for text in parts["validation"].values()]
    found = torch.cat([logits_of(model, tokens) for tokens in valid]).numpy()
    from truecal import TemperatureScaling

    temperature = float(TemperatureScaling().fit(found, torch.cat([t[1:] for t in valid]).numpy()).temperature_)
    raw, scaled, nats = [], [], {"raw": 0.0, "scaled": 0.0}
    count = 0
    for name, body in tested.items():
        tokens = encode(body)
        logits = logits_of(model, tokens)
        for lines, divided, key in ((raw, logits, "raw"), (scaled, logits / temperature, "scaled")):
            log = divided.log_softmax(-1)
            lines.append(echoed(name, chars, tokens.tolist(), log))
            nats[key] -= float(log[torch.arange(len(log)), tokens[1:]].sum())
        count += len(tokens) - 1
    write("tokens.jsonl.gz", raw)
    write("tokens-scaled.jsonl.gz", scaled)

    letters = torch.tensor([char.isalpha() for char in chars])
    asked = list(questions(parts["test"]))
    asked = [asked[i] for i in sorted(rng.choice(len(asked), QUESTIONS, replace=False))]
    prompts = torch.stack([encode(prompt) for _, prompt, _ in asked])

    def word(tokens: list[int]) -> str:
        return "".join(chars[t] for t in tokens if chars[t].isalpha()) or "(no word)"

    words, logs = sample(model, prompts, letters, greedy=True)
    answers = []
    for (name, prompt, truth), tokens, each in zip(asked, words, logs, strict=True):
        logged = [content(chars, t, log) for t, log in zip(tokens, each, strict=True)]
        choice = {"message": {"content": word(tokens)}, "logprobs": {"content": logged}}
        answers.append({"document": name, "prompt": prompt, "correct": word(tokens) == truth, "choices": [choice]})
    write("answers.jsonl.gz", answers)

    lines = []
    for _ in range(SAMPLES):
        words, _ = sample(model, prompts, letters, greedy=False)
        for i, ((_, _, truth), tokens) in enumerate(zip(asked, words, strict=True)):
            lines.append({"question": i, "answer": word(tokens), "correct": word(tokens) == truth})
    write("samples.jsonl.gz", sorted(lines, key=lambda line: line["question"]))

    results = {
        "script": "python -m benchmarks.language_model",
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "documents": {p: len(t) for p, t in parts.items()},
        "characters": {"train": len(text), "test": count},
        "vocabulary": len(chars),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": STEPS,
        "seconds_to_train": round(trained),
        "seconds": round(time.process_time() - began),
        "temperature": round(temperature, 4),
        "nats_per_character": {key: round(value / count, 4) for key, value in nats.items()},
        "perplexity": {key: round(math.exp(value / count), 3) for key, value in nats.items()},
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
