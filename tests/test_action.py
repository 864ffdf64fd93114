"""The script of action.yml, run as the action runs it, against a stand-in for GitHub's API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux")
ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".github" / "action" / "verdict.py"


class GitHub(ThreadingHTTPServer):
    """Keeps the comments of one pull request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = [{"id": 1, "body": "Nice work!", "user": {"login": "me", "type": "User"}}]
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: GitHub

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        answer: Any = {}
        status = self.server.status
        if self.path == "/user":  # the token of a job may not ask
            status = 403
        elif self.command == "GET":
            page = int(re.search(r"[?&]page=(\d+)", self.path)[1])  # type: ignore[index]
            answer = self.server.comments[2 * page - 2 : 2 * page]  # two a page
        elif self.command == "POST" and self.path == "/repos/me/model/issues/7/comments":
            own = {"login": "github-actions[bot]", "type": "Bot"}
            self.server.comments.append({"id": len(self.server.comments) + 1, "user": own, **body})
        elif self.command == "PATCH":
            next(c for c in self.server.comments if self.path.endswith(f"/comments/{c['id']}")).update(body)
        assert self.headers["Authorization"] == "Bearer secret"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def run(tmp_path: Path, github: GitHub) -> Any:
    """Run the script with these inputs: its exit code, its output, the summary and the outputs of the step."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    command = scripts / "truecal"
    command.write_text(f"#!{sys.executable}\nfrom truecal.cli import main\nmain()\n")
    command.chmod(0o755)
    u = np.random.default_rng(0).random(400)
    for name, chance in (("good", u), ("bad", u**3)):
        y = np.random.default_rng(1).random(400) < chance
        rows = "".join(f"{int(a)},{b}\n" for a, b in zip(y, u, strict=True))
        (tmp_path / f"{name}.csv").write_text("label,prob\n" + rows)

    def call(file: str, event: Any = None, **inputs: str) -> tuple[int, str, str, str]:
        (tmp_path / "event.json").write_text(json.dumps(event or {"pull_request": {"number": 7}}))
        for name in ("summary", "output"):
            (tmp_path / name).write_text("")
        variables = {
            "PATH": os.pathsep.join([str(scripts), os.environ["PATH"]]),
            "TRUECAL_FILE": file,
            "TRUECAL_ARGUMENTS": "--resamples 99",
            "GITHUB_TOKEN": "secret",
            "GITHUB_REPOSITORY": "me/model",
            "GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        } | {f"TRUECAL_{name.upper()}": value for name, value in inputs.items()}
        started = [sys.executable, str(SCRIPT)]
        done = subprocess.run(
            started, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        summary, output = ((tmp_path / name).read_text() for name in ("summary", "output"))
        return done.returncode, done.stdout + done.stderr, summary, output

    return call


@pytest.mark.heavy
def test_a_rejection_fails_and_is_commented_once(run: Any, github: GitHub) -> None:
    code, text, summary, output = run("bad.csv")
    assert code == 3 and output == "verdict=no\n" and "comment written" in text
    assert "### truecal: verdict no (alpha = 0.05)" in summary and "`bad.csv`" in summary
    assert github.comments[-1]["body"] == summary
    github.comments.append({"id": 3, "body": None, "user": None})
    code, text, summary, _ = run("bad.csv", alpha="0.02", fail="false")
    assert code == 0 and "comment updated" in text and len(github.comments) == 3
    assert github.comments[1]["body"] == summary and "alpha = 0.02" in summary


@pytest.mark.slow
@pytest.mark.heavy
def test_what_is_calibrated_passes_and_errors_are_shown(run: Any, github: GitHub) -> None:
    code, text, summary, output = run("good.csv", event={"ref": "refs/heads/main"})
    assert code == 0 and output == "verdict=yes\n" and "no pull request to comment on" in text
    assert "### truecal: verdict yes (alpha = 0.05)" in summary and len(github.comments) == 1
    code, _, summary, output = run("none.csv", fail="false")
    assert code == 1 and output == "verdict=error\n"
    assert "the test could not be run" in summary and "    error: none.csv" in summary
    github.status = 403
    code, text, _, _ = run("good.csv")
    assert code == 0 and "::warning::truecal could not comment: HTTP Error 403" in text


@pytest.mark.heavy
def test_a_comment_of_somebody_else_is_left_alone(run: Any, github: GitHub) -> None:
    marker = f"<!-- truecal test {b'bad.csv'.hex()} -->"
    github.comments.append({"id": 2, "body": marker, "user": {"login": "eve", "type": "User"}})
    _, text, summary, _ = run("bad.csv")
    assert "comment written" in text and [c["body"] for c in github.comments[1:]] == [marker, summary]


@pytest.mark.slow
def test_an_exit_code_alone_is_no_verdict(run: Any, tmp_path: Path) -> None:
    """A file called --help is a file, and arguments that cannot be read are an error."""
    (tmp_path / "--help").write_bytes((tmp_path / "bad.csv").read_bytes())
    code, _, _, output = run("--help", comment="false")
    assert (code, output) == (3, "verdict=no\n")
    code, _, _, output = run("good.csv", arguments="--help", comment="false")
    assert (code, output) == (1, "verdict=error\n")
    code, text, summary, output = run("good.csv", arguments="--labels 'x", comment="false", fail="false")
    assert (code, output) == (2, "verdict=error\n") and "the input arguments cannot be read" in summary
    assert "Traceback" not in text
    token = re.match(r"::stop-commands::([0-9a-f]{32})\n", text)
    assert token is not None and f"\n::{token[1]}::\n" in text


def test_no_input_is_read_by_the_shell() -> None:
    """Inputs stand in variables only: a file name that is a command is a file name."""
    action = (ROOT / "action.yml").read_text()
    lines = [line for line in action.splitlines() if "${{ inputs." in line]
    assert len(lines) == 6 and all(re.match(r"\s+[A-Z_]+: \$\{\{ inputs\.\w+ \}\}$", line) for line in lines)
    assert not any("${{" in line for line in action.splitlines() if "run:" in line)
