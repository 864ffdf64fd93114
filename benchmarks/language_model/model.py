"""The text, its parts, and a character-level transformer: `python -m benchmarks.language_model.model` trains it."""

from __future__ import annotations

import ast
import hashlib
import platform
import sysconfig
import time
from pathlib import Path

import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).parent / "weights.pt"
CONTEXT, WIDTH, LAYERS, HEADS = 128, 128, 2, 4
STEPS, BATCH = 2000, 32
SHORTEST, TRAINED = 600, 2000  # characters of a document: at least, and in training
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
    """Attention to earlier characters, and a layer on top."""

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
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def train(text: Tensor, vocabulary: int) -> Model:
    """A model of the text, by Adam with a falling learning rate."""
    model = Model(vocabulary).to(text.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS, pct_start=0.1)
    began = time.monotonic()
    for step in range(STEPS):
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([text[i : i + CONTEXT + 1] for i in starts])
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: {loss.item():.3f} nats, {time.monotonic() - began:.0f} s", flush=True)
    return model.eval()


class Text:
    """All documents by their parts, and the numbers of their characters."""

    def __init__(self) -> None:
        texts = documents()
        self.chars = "".join(sorted({char for text in texts.values() for char in text}))
        self.parts = {p: {n: t for n, t in texts.items() if part(n) == p} for p in ("train", "validation", "test")}
        self.trained = self.encode("\n\n".join(text[:TRAINED] for text in self.parts["train"].values()))

    def encode(self, text: str) -> Tensor:
        index = {char: i for i, char in enumerate(self.chars)}
        return torch.tensor([index[char] for char in text])


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text, began = Text(), time.monotonic()
    model = train(text.trained.to(device), len(text.chars)).cpu()
    about = {
        "device": device,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "chars": text.chars,
    }
    torch.save({"weights": model.state_dict(), "seconds": time.monotonic() - began, **about}, WEIGHTS)


if __name__ == "__main__":
    main()
