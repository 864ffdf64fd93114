"""Run `truecal test` on a predictions file; the verdict goes to the log, the job's summary and the pull request.

The script of action.yml. It needs the standard library and the `truecal` command, and reads its inputs from variables.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from textwrap import indent
from typing import Any

REJECTED, UNDECIDED = 3, 4
VERDICTS = {0: "not rejected", REJECTED: "rejected", UNDECIDED: "undecided"}
LONGEST = 20_000


def tested(file: str, alpha: str, arguments: str) -> tuple[int, str]:
    """The exit code of `truecal test`, and what it printed."""
    command = [shutil.which("truecal") or "truecal", "test", file, "--alpha", alpha, *shlex.split(arguments)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    return run.returncode, (run.stdout + run.stderr).strip()


def page(file: str, alpha: str, code: int, said: str) -> str:
    """The verdict as Markdown. What was printed is indented: a block of code that no line of it can end."""
    word = VERDICTS.get(code)
    heading = f"calibration is {word} at alpha = {alpha}" if word else "the test could not be run"
    name = " ".join(file.replace("`", "'").split())
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


def comment(text: str, file: str) -> str:
    """Write the comment on the pull request of this run, or write it again; what was done."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if number is None:
        return "no pull request to comment on"
    root = (
        f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    )
    page_number = 1
    while found := ask("GET", f"{root}/{number}/comments?per_page=100&page={page_number}"):
        for old in found:
            if old["body"].startswith(marker(file)):
                ask("PATCH", f"{root}/comments/{old['id']}", {"body": text})
                return "comment updated"
        page_number += 1
    ask("POST", f"{root}/{number}/comments", {"body": text})
    return "comment written"


def main() -> int:
    """Exit codes: 0 done, 3 rejected or 4 undecided where that is to fail, otherwise that of `truecal test`."""
    file, alpha = os.environ["TRUECAL_FILE"], os.environ.get("TRUECAL_ALPHA", "0.05")
    code, said = tested(file, alpha, os.environ.get("TRUECAL_ARGUMENTS", ""))
    print(said, flush=True)
    text = page(file, alpha, code, said)
    for variable, line in (
        ("GITHUB_STEP_SUMMARY", text),
        ("GITHUB_OUTPUT", f"verdict={VERDICTS.get(code, 'error')}\n"),
    ):
        if path := os.environ.get(variable):
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(line)
    if os.environ.get("TRUECAL_COMMENT", "true") == "true" and os.environ.get("GITHUB_EVENT_PATH"):
        try:
            print(comment(text, file))
        except (OSError, KeyError, ValueError) as error:  # a fork's token may not comment: the verdict stands anyway
            print(f"::warning::truecal could not comment: {error}")
    return 0 if code in (REJECTED, UNDECIDED) and os.environ.get("TRUECAL_FAIL", "true") != "true" else code


if __name__ == "__main__":
    sys.exit(main())
