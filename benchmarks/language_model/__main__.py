"""Train the model and write its logs: `python -m benchmarks.language_model` (ten minutes on one core, or one on a GPU).

Weights that `python -m benchmarks.language_model.model` has left in this folder are used instead of training again.

The text comes with Python: the topics of `help()` and the docstrings of the standard library, one document per topic
or module. Documents are divided by a hash of their names: the model is trained on some, the temperature is fitted on
others, and all logs are of a third part. The logs have the form in which servers write them.
"""

from __future__ import annotations

import gzip
import json
import math
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import model as training
from .model import CONTEXT, STEPS, WEIGHTS, Model, Text

LOGS = Path(__file__).parents[2] / "docs" / "logs"
LONGEST = 320  # characters of a document that are predicted
QUESTIONS, SAMPLES, PROMPT, LONGEST_WORD = 400, 20, 64, 16
TOP = 3


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
    (LOGS / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def questions(texts: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Document, prompt and the word that follows it, of several letters."""
    for name, text in texts.items():
        for match in re.finditer(r"(?<= )[a-z]{3,15}(?=[^A-Za-z])", text):
            if match.start() >= PROMPT:
                yield name, text[match.start() - PROMPT : match.start()], match.group()


def main() -> None:
    torch.set_num_threads(1)
    if not WEIGHTS.exists():
        training.main()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    text, stored = Text(), torch.load(WEIGHTS, weights_only=True)
    chars, parts, encode = text.chars, text.parts, text.encode
    if stored["chars"] != chars:
        raise SystemExit("the weights are of another text: delete weights.pt")
    model = Model(len(chars)).eval()
    model.load_state_dict(stored["weights"])

    tested = {name: body[:LONGEST] for name, body in parts["test"].items()}
    valid = [encode(body[:LONGEST]) for body in parts["validation"].values()]
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
        return "".join(chars[t].lower() for t in tokens if chars[t].isalpha()) or "(no word)"

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
        "python": {"trained": stored["python"], "tested": platform.python_version()},
        "device": stored["device"],
        "torch": stored["torch"].partition("+")[0],
        "documents": {p: len(t) for p, t in parts.items()},
        "characters": {"train": len(text.trained), "test": count},
        "vocabulary": len(chars),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": STEPS,
        "seconds_to_train": round(stored["seconds"]),
        "temperature": round(temperature, 4),
        "nats_per_character": {key: round(value / count, 4) for key, value in nats.items()},
        "perplexity": {key: round(math.exp(value / count), 3) for key, value in nats.items()},
    }
    (LOGS / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
