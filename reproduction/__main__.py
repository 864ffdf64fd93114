"""``python -m reproduction``: the experiment on machines that have nothing but the training libraries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from reproduction.presets import PRESETS
from reproduction.run import print_progress, reproduce
from reproduction.traces import KINDS
from truecal.io import FileError

TIME_LIMIT = 4  # 3 is a rejected calibration


def _several(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Reads a comma-separated option."""
    return lambda text: tuple(kind(part) for part in text.split(",") if part)


def parser(prog: str) -> argparse.ArgumentParser:
    """Options left out are not passed on, so a preset's own defaults stay its own."""
    made = argparse.ArgumentParser(
        prog=prog,
        description="Train traces, score every checkpoint, draw every figure and table of the paper.",
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("preset", nargs="?", choices=sorted(PRESETS), default=None)
    made.add_argument("--tables-from", metavar="DIR", help="only draw figures and tables from DIR's checkpoints.csv")
    made.add_argument("--rows-from", metavar="DIR", help="only measure, from DIR's kept logits, how far correlations "
                      "would move on other test rows")  # fmt: skip
    run = made.add_argument_group("the run")
    run.add_argument("--out", metavar="DIR", help="the folder for results; the same DIR resumes")
    run.add_argument("--from", dest="from_dir", metavar="DIR", help="stored logits instead of training")
    run.add_argument("--quick", action="store_true", help="a smaller run of the same preset")
    run.add_argument("--keep-logits", action="store_true", help="keep the logits of every checkpoint")
    run.add_argument("--seed", type=int, help="seed of the run")
    run.add_argument("--experiments", type=_several(str), help=f"comma-separated, of {','.join(KINDS)}")
    run.add_argument("--pieces", type=_several(int), help="comma-separated: only these pieces of the preset's traces")
    run.add_argument("--processes", type=int, help="traces trained at a time")
    run.add_argument("--scorers", type=int, help="processes that measure checkpoints, per training process")
    run.add_argument("--time-limit", type=float, metavar="SECONDS", help="time limit, at which the run stops cleanly")
    run.add_argument("--no-summary", dest="summary", action="store_false", help="leave figures and tables for later")
    run.add_argument("--quiet", action="store_true", help="print no progress")
    own = made.add_argument_group("default: the preset's")
    own.add_argument("--epochs", type=int, help="epochs of a trace")
    own.add_argument("--fractions", type=_several(float), help="comma-separated, within-model")
    own.add_argument("--cross-fractions", type=_several(float), help="comma-separated, cross-model")
    own.add_argument("--models", type=_several(str), help="comma-separated, cross-model")
    own.add_argument("--within-model", help="the network of the within-model traces")
    own.add_argument("--data", metavar="DIR", help="the cifar-100-python folder")
    own.add_argument("--weights", metavar="DIR", help="a folder of <model>.pth, instead of timm's hub")
    own.add_argument("--from-scratch", dest="pretrained", action="store_false", help="no pretrained weights")
    own.add_argument("--image-size", type=int, help="pixels of a side")
    own.add_argument("--learning-rate", type=float, help="learning rate")
    own.add_argument("--momentum", type=float, help="momentum of the optimiser")
    own.add_argument("--weight-decay", type=float, help="weight decay")
    own.add_argument("--batch-size", type=int, help="images of a step")
    own.add_argument("--precision", choices=("bf16", "fp32"))
    own.add_argument("--device", help="torch device, such as cuda")
    own.add_argument("--cuda-graphs", action="store_true", help="launch each training step as one recorded graph")
    own.add_argument("--compile", action="store_true", help="fuse the network's kernels with torch.compile")
    own.add_argument("--no-channels-last", dest="channels_last", action="store_false", help="plain memory layout")
    return made


def main(arguments: Sequence[str] | None = None, prog: str = "python -m reproduction") -> int:
    """Exit status 0 when all is done, 1 for files and folders that are not as they should be, 2 for bad arguments, 4
    when the time limit came first."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["calarena"]:
        from reproduction import calarena

        return calarena.main(words[1:])
    if words[:1] == ["maps"]:
        from reproduction import maps

        return maps.main(words[1:])
    if words[:1] == ["places"]:
        from reproduction import places

        return places.main(words[1:])
    command = parser(prog)
    given: dict[str, Any] = vars(command.parse_args(words))
    preset, folder, quiet = given.pop("preset"), given.pop("tables_from", None), given.pop("quiet", False)
    logits = given.pop("rows_from", None)
    try:
        if logits is not None:
            from reproduction.rows import row_errors

            print(row_errors(logits))
            return 0
        if folder is not None:
            from reproduction.summary import summarise

            print(summarise(folder))
            return 0
        if "out" not in given:
            command.error("--out DIR is needed")
        outcome = reproduce(preset, progress=None if quiet else print_progress, **given)
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1 if isinstance(problem, (FileError, OSError)) else 2
    state = "complete" if outcome.complete else "stopped at the time limit: run again to continue"
    print(f"{outcome.out}: {outcome.checkpoints} checkpoints of {outcome.traces} traces, {state}")
    return 0 if outcome.complete else TIME_LIMIT


if __name__ == "__main__":
    sys.exit(main())
