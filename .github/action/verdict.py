"""Run `truecal test` on a predictions file; the verdict goes to the log, the job's summary and the pull request.

The script of action.yml. It needs the standard library and the `truecal` command, and reads its inputs from variables.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

VERDICTS = ("yes", "no", "undecided")
LONGEST = 20_000


def tested(file: str, alpha: str, arguments: str) -> tuple[int, str | None, str]:
    """The exit code of `truecal test`, the verdict that it wrote, None where it wrote none, and what it printed.

    The file comes behind `--`, so that no name is an option. An exit code of 0 alone is no verdict: --help has it too.
    """
    try:
        more = shlex.split(arguments)
    except ValueError as error:
        return 2, None, f"error: the input arguments cannot be read ({error})"
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "verdict.json")
        command = [shutil.which("truecal") or "truecal", "test", "--alpha", alpha, *more, "--json", str(written)]
        run = subprocess.run(
            [*command, "--", file], capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
        )
        found = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    word = found.get("verdict")
    return run.returncode, word if word in VERDICTS else None, (run.stdout + run.stderr).strip()


def page(file: str, alpha: str, word: str | None, said: str) -> str:
    """The verdict as Markdown. What was printed is indented: a block of code that no line of it can end."""
    heading = f"verdict {word} (alpha = {alpha})" if word else "the test could not be run"
    name = "".join(c if c.isprintable() else " " for c in file.replace("`", "'"))
    return f"{marker(file)}\n### truecal: {heading}\n\n`{name}`\n\n{indent(said[:LONGEST], ' ' * 4)}\n"


def marker(file: str) -> str:
    """An invisible line by which a later run finds its comment."""
    return f"<!-- truecal test {file.encode().hex()} -->"


def ask(method: str, url: str, body: dict[str, str] | None = None) -> Any:
    """One call of GitHub's API."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def mine() -> Callable[[dict[str, Any]], bool]:
    """Whether the owner of the token wrote a comment; a job's token does not tell whose it is: a bot's."""
    try:
        login = ask("GET", f"{api()}/user")["login"]
    except (OSError, KeyError, TypeError, ValueError):
        return lambda old: (old.get("user") or {}).get("type") == "Bot"
    return lambda old: (old.get("user") or {}).get("login") == login


def api() -> str:
    return os.environ.get("GITHUB_API_URL", "https://api.github.com")


def comment(text: str, file: str) -> str:
    """Write the comment on the pull request of this run, or write it again; what was done."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if number is None:
        return "no pull request to comment on"
    root = f"{api()}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    own, page_number = mine(), 1
    while found := ask("GET", f"{root}/{number}/comments?per_page=100&page={page_number}"):
        for old in found:
            if own(old) and str(old.get("body")).startswith(marker(file)):
                ask("PATCH", f"{root}/comments/{old['id']}", {"body": text})
                return "comment updated"
        page_number += 1
    ask("POST", f"{root}/{number}/comments", {"body": text})
    return "comment written"


def main() -> int:
    """Exit codes: 0 done, 3 rejected or 4 undecided where that is to fail, otherwise that of `truecal test`, or 1."""
    file, alpha = os.environ["TRUECAL_FILE"], os.environ.get("TRUECAL_ALPHA", "0.05")
    code, word, said = tested(file, alpha, os.environ.get("TRUECAL_ARGUMENTS", ""))
    end = secrets.token_hex(16)  # what was printed may hold names from the file, and a line may look like a command
    print(f"::stop-commands::{end}\n{said}\n::{end}::", flush=True)
    text = page(file, alpha, word, said)
    for variable, line in (
        ("GITHUB_STEP_SUMMARY", text),
        ("GITHUB_OUTPUT", f"verdict={word or 'error'}\n"),
    ):
        if path := os.environ.get(variable):
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(line)
    if os.environ.get("TRUECAL_COMMENT", "true") == "true" and os.environ.get("GITHUB_EVENT_PATH"):
        try:
            print(comment(text, file))
        except (OSError, KeyError, ValueError) as error:  # a fork's token may not comment: the verdict stands anyway
            print(f"::warning::truecal could not comment: {' '.join(str(error).split())}")
    if word is None:
        return code or 1
    return 0 if os.environ.get("TRUECAL_FAIL", "true") != "true" else code


if __name__ == "__main__":
    sys.exit(main())
