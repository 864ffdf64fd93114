"""The errors on a GPU: against the floors of their arithmetic on the same card, and their numbers against the CPU's.

    python -m benchmarks.gpu [--rows 50000] [--classes 1000] [--seconds 60] [--shapes] [--host]

Every error, rule, treatment of ties and precision is compared with numpy on the same predictions first, until the
seconds are spent; the exit status is 1 if one is not right. Times are medians of whole public calls (validation,
kernels and the number that comes back): by events of the device, by the clock of the host, and of the kernels alone,
with how many of these there are.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

import truecal
from truecal.sums.torch import kernels
from truecal.sums.torch import quick as quick_way

tc: Any = truecal
quick: Any = quick_way
Call = Callable[[], object]
BEGUN = time.perf_counter()
DEVICE = "cuda"


def softmax_sample(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 softmax rows on the GPU and labels drawn from them."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    p = torch.softmax(2 * torch.randn(n, k, generator=generator, device=DEVICE), 1)
    return torch.multinomial(p, 1, generator=generator)[:, 0], p


# -- times -------------------------------------------------------------------------------------------------------------


class Time(NamedTuple):
    """Milliseconds of a call: between two events of the device (median, least, most), by the host's clock, and of its
    kernels alone; and how many kernels and copies there are."""

    device: float
    least: float
    most: float
    host: float
    kernels: float
    launches: int


def timed(call: Call, repeats: int = 30) -> Time:
    """Medians after warm-up."""
    for _ in range(5):
        call()
    device, host = [], []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        start = time.perf_counter()
        call()
        host.append(1e3 * (time.perf_counter() - start))
        end.record()
        torch.cuda.synchronize()
        device.append(begin.elapsed_time(end))
    busy = profiled(call)
    middle = statistics.median(device)
    return Time(middle, min(device), max(device), statistics.median(host), sum(busy.values()), len(busy))


def profiled(call: Call) -> dict[str, float]:
    """Milliseconds of every kernel and copy of one call, by its place and name."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    found = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return {f"{i} {e.name}": e.time_range.elapsed_us() / 1e3 for i, e in enumerate(found)}


def print_kernels(title: str, call: Call) -> None:
    """The kernels of a call with their times, for whoever wants to make it faster."""
    parts = [f"{name.split(' ', 1)[1][:28]} {1e3 * ms:.0f}" for name, ms in profiled(call).items()]
    print(f"    {title}, µs: {'; '.join(parts)}", flush=True)


def guarded(what: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; a failure is printed, and the rest goes on."""
    try:
        return work()
    except Exception as problem:  # whatever it is, the other rows are worth having
        print(f"{what:<58} FAILED: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        return None


def row(what: str, call: Call, floor: float | None = None, bound: str = "", *, upside: bool = False) -> float | None:
    """Prints a line of the table, and gives the time: the ratio is time over floor, or the other way round."""
    found: Time | None = guarded(what, lambda: timed(call))
    if found is None:
        return None
    ratio = "" if floor is None else f"{floor / found.device if upside else found.device / floor:.2f}"
    spread = f"{found.least:.3f}-{found.most:.3f}"
    print(
        f"{what:<58} {ratio:>7} {bound:>7} {found.device:>9.3f} {spread:>15} {found.host:>8.3f} {found.kernels:>8.3f} "
        f"{found.launches:>5}",
        flush=True,
    )
    return found.device


def targets(y: torch.Tensor, p: torch.Tensor) -> None:
    columns = ("ratio", "wanted", "ms", "least-most", "host", "kernels", "count")
    widths = (7, 7, 9, 15, 8, 8, 5)
    print(f"{'':<58} " + " ".join(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True)))
    sort, copied = floors(p)
    one = row("classwise quantile, 15 bins / sort", lambda: tc.classwise_error(y, p), sort, "<= 1.6")
    row("50 bin counts / one", lambda: tc.classwise_error(y, p, n_bins=range(2, 52)), one, "<= 1.3")

    def uniform() -> object:
        return tc.classwise_error(y, p, strategy="uniform")

    row("classwise equal-width, 15 bins / copy", uniform, copied, "<= 4")
    guarded("kernels", lambda: print_kernels("classwise equal-width", uniform))
    against_torchmetrics(y, p)
    others: dict[str, Call] = {
        "classwise two-bin average / sort": lambda: tc.classwise_error(y, p, strategy="two_bin"),
        "classwise decompose / sort": lambda: tc.decompose(y, p),
        "score (confidence) / sort": lambda: tc.score(y, p),
        "full, argmax cells / sort": lambda: tc.full_error(y, p),
        "brier / sort": lambda: tc.brier(y, p),
        "cross-entropy / sort": lambda: tc.cross_entropy(y, p),
        "calibration test of U, confidence, 999 draws / sort": lambda: tc.calibration_test(y, p, error="confidence"),
        "calibration test of several forms, 999 draws / sort": lambda: tc.calibration_test(y, p),
    }
    for name, call in others.items():
        guarded(name, partial(print_once, name, call, sort))


def floors(p: torch.Tensor) -> tuple[float | None, float | None]:
    """What the arithmetic cannot do without: the sort of all columns, and a copy of the array."""
    ready, copy = p.T.contiguous(), torch.empty_like(p)
    sort = row("torch.sort of the ready (k, n) array", lambda: torch.sort(ready, dim=1))
    return sort, row("device copy of the array", lambda: copy.copy_(p))


def print_once(what: str, call: Call, floor: float | None) -> None:
    """A line for a long call, which is timed five times."""
    call()
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    ms = statistics.median(times)
    print(f"{what:<58} {'' if floor is None else f'{ms / floor:.2f}':>7} {'':>7} {ms:>9.3f}", flush=True)


def against_torchmetrics(y: torch.Tensor, p: torch.Tensor) -> None:
    k: Any = p.shape[1]

    def peer() -> object:
        from torchmetrics.functional.classification import multiclass_calibration_error

        return multiclass_calibration_error(p, y, k, n_bins=15)

    theirs = row("torchmetrics, usual ECE", peer)
    for name, options in {"corrected, quantile": {}, "usual ECE": {"norm": "l1"}}.items():

        def ours(options: Any = options) -> object:
            return tc.confidence_error(y, p, **options)

        row(f"torchmetrics / ours ({name})", ours, theirs, ">= 1", upside=True)
        guarded("kernels", partial(print_kernels, name, ours))


UPDATES, BATCH = 200, 256


def epoch(k: int) -> None:
    """An epoch of updates and one compute: torchmetrics beside ours, by the host's clock."""
    from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

    from truecal.adapters.torchmetrics import CalibrationMetric

    batches = [softmax_sample(BATCH, k, seed) for seed in range(8)]
    metrics: dict[str, Any] = {
        "torchmetrics' MulticlassCalibrationError": MulticlassCalibrationError(k),
        "torchmetrics' MulticlassAccuracy": MulticlassAccuracy(k),
        "CalibrationMetric, usual ECE": CalibrationMetric("confidence_l1"),
        "CalibrationMetric, confidence": CalibrationMetric("confidence"),
        "CalibrationMetric, classwise": CalibrationMetric("classwise", num_classes=k),
    }
    print(f"{UPDATES} updates of {BATCH} x {k:,} and compute, ms:")
    base = None
    for name, metric in metrics.items():
        times = guarded(name, partial(epoch_times, metric.to(DEVICE), batches))
        if times is not None:
            base = base or statistics.median(times)
            ms = statistics.median(times)
            print(f"  {name:<56} {ms / base:>7.2f} {ms:>17.1f} {min(times):>9.1f}-{max(times):.1f}", flush=True)


def epoch_times(metric: Any, batches: list[Any], repeats: int = 7) -> list[float]:
    times = []
    for _ in range(repeats + 1):
        metric.reset()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(UPDATES):
            y, p = batches[i % len(batches)]
            metric.update(p, y)
        metric.compute()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return times[1:]


def whole_models(n: int = 10_000_000, k: int = 10) -> None:
    """What people wait for, on tensors of the GPU, beside a copy of the predictions to the host."""
    y, p = softmax_sample(n, k)
    q = p**1.2
    q /= q.sum(1, keepdim=True)
    calls: dict[str, Call] = {
        "copy to the host": lambda: p.cpu(),
        "evaluate": lambda: tc.evaluate(y, p),
        "gap, confidence": lambda: tc.gap(y, p),
        "gap, classwise": lambda: tc.gap(y, p, error="classwise"),
        "confidence_interval, classwise U": lambda: tc.confidence_interval(y, p, error="classwise"),
        "calibration_test": lambda: tc.calibration_test(y, p),
        "paired_difference": lambda: tc.paired_difference(y, p, q),
        "compare, two models": lambda: tc.compare(y, {"a": p, "b": q}),
    }
    print(f"whole calls, {n:,} x {k} on the GPU, ms (median of five after one):")
    for name, call in calls.items():
        guarded(name, partial(print_once, f"  {name}", call, None))


def shapes(y: torch.Tensor, p: torch.Tensor) -> None:
    """The passes over all predictions with tiles of other shapes, in µs of their kernels."""
    fused = kernels.kernels_for(p)
    checks: list[Any] = [(256, 512, 2), (256, 1024, 4), (128, 512, 2), (128, 256, 1), (256, 256, 1), (512, 512, 2)]
    walks = [(64, 4, 32, 1), (128, 4, 32, 1), (64, 8, 32, 1), (32, 4, 32, 1), (64, 2, 64, 1), (64, 2, 32, 1)]
    for name, table, every, call in (
        ("check", fused.CHECK, checks, lambda: tc.confidence_error(y, p, norm="l1")),
        ("walk", fused.WALK, walks, lambda: tc.classwise_error(y, p, strategy="uniform")),
    ):
        usual, found = dict(table), {}
        for shape in every:
            table.update(zip(table, shape, strict=True))
            found[shape] = guarded(f"{name} {shape}", partial(fastest, name, call))
        print(f"{name}, µs by {', '.join(table)}: {found}", flush=True)
        best = min((us, shape) for shape, us in found.items() if us)[1]
        table.update(zip(table, best, strict=True))
        row(f"the whole call with {best}", call)
        table.update(usual)


def host_times(y: torch.Tensor, p: torch.Tensor) -> None:
    """Where the host is after each step of a call, in µs since its beginning."""
    calls: dict[str, Call] = {
        "classwise equal-width": lambda: tc.classwise_error(y, p, strategy="uniform"),
        "confidence, corrected": lambda: tc.confidence_error(y, p),
        "confidence, usual ECE": lambda: tc.confidence_error(y, p, norm="l1"),
    }
    fused, ranks = kernels.kernels_for(p), importlib.import_module("truecal.sums.torch.fused_quantiles")
    steps = [(quick, "plain_rows"), (quick, "_make_ready"), (quick, "fetched")]
    steps += [(fused, name) for name in ("check", "check_and_count", "interval_residuals", "finish")]
    steps.append((ranks, "quantile_bins"))
    for name, call in calls.items():
        guarded(name, partial(print_steps, name, call, steps))


def print_steps(name: str, call: Call, steps: list[tuple[Any, str]]) -> None:
    """Medians of when each step began and ended."""
    marks: dict[str, list[float]] = defaultdict(list)
    begun = 0.0

    def watched(title: str, function: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            marks[f"{title} from"].append(time.perf_counter() - begun)
            found = function(*arguments, **options)
            marks[f"{title} to"].append(time.perf_counter() - begun)
            return found

        return step

    kept = [(module, title, getattr(module, title)) for module, title in steps]
    for module, title, function in kept:
        setattr(module, title, watched(title, function))
    try:
        for _ in range(60):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            call()
            marks["all"].append(time.perf_counter() - begun)
    finally:
        for module, title, function in kept:
            setattr(module, title, function)
    parts = sorted((1e6 * statistics.median(times), title) for title, times in marks.items())
    print(f"    {name}, host µs: " + "; ".join(f"{title} {us:.0f}" for us, title in parts), flush=True)


def fastest(name: str, call: Call) -> float:
    """The least µs of a kernel in a few calls."""
    call()
    each = [sum(ms for kernel, ms in profiled(call).items() if name in kernel) for _ in range(4)]
    return round(1e3 * min(each), 1)


# -- numbers -----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    family: str
    what: str
    metric: Any
    y: torch.Tensor
    p: torch.Tensor
    weight: torch.Tensor | None


def rules(vector: bool) -> list[Any]:
    """Every rule and treatment of ties."""
    if vector:
        return [
            *(tc.rules.ArgmaxQuantile(3, ties=ties) for ties in ("auto", "together", "row")),
            tc.rules.ArgmaxQuantile((1, 4)),
            tc.rules.KdTree(8),
            tc.rules.Exact(),
        ]
    return [
        tc.Quantile(15),
        tc.EqualWidth(15),
        tc.Quantile(15, ties="together"),
        tc.Quantile(15, ties="row"),
        tc.TwoBin(),
        tc.Poisson(0.1),
        tc.rules.Exact(),
        tc.Edges([0, 0.01, 0.2, 0.5, 1]),
        tc.Quantile((2, 15, 400)),
        tc.EqualWidth((3, 200)),
    ]


def properties(k: int) -> dict[str, Any]:
    values = np.linspace(0, 1, k)
    return {
        "classwise": tc.Classwise(),
        "confidence": tc.Confidence(),
        "full": tc.Full(),
        "binary": tc.Binary(),
        "top label": tc.TopLabel(),
        "linear": tc.properties.Outcomes((0.0, 1.0)),
        "linear(phi)": tc.Linear(values),
    }


def samples(n: int, k: int) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Predictions without and with many equal ones."""
    y, p = softmax_sample(n, k, seed=1)
    yield "distinct", y, p
    drawn = torch.multinomial(p, 8, replacement=True)
    yield "tied", y, torch.nn.functional.one_hot(drawn, k).float().mean(1)


def cases(n: int = 1500, k: int = 7) -> Iterator[Case]:
    """Every error, rule, norm and treatment of ties in float32, with weights too; then the other precisions."""
    weight = torch.rand(n, device=DEVICE, dtype=torch.float64) + 0.1
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        for (title, y, p), (name, property) in itertools.product(samples(n, k), properties(k).items()):
            flat = name in ("binary", "top label", "linear")
            outcome, reports = ((y == 0), p[:, 0]) if flat else (y, p)
            if name == "linear":
                outcome = outcome.double()
            every = rules(property.vector)
            for rule, norm in itertools.product(every if dtype == torch.float32 else every[:3], ("l2", "l1")):
                metric = composed(property, rule, norm)
                if metric is None:
                    continue
                for w in (None, weight) if dtype == torch.float32 else (None,):
                    weights = "" if w is None else ", weights"
                    what = f"{rule}, {norm}, {title}{weights}"
                    family = name if dtype == torch.float32 else f"{name}, {dtype}".replace("torch.", "")
                    yield Case(family, what, metric, outcome, reports.to(dtype), w)


def shaped_cases(count: int = 120) -> Iterator[Case]:
    """The ways through the kernels with numbers of rows and classes as they come."""
    rng = np.random.default_rng(0)
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    for i in range(count):
        n, k = int(rng.integers(1, 5000)), int(rng.choice([2, 3, 10, 33, 64, 100, 257]))
        property = (tc.Classwise(), tc.Confidence())[i % 2]
        rule = (tc.EqualWidth(15), tc.Quantile(15), tc.EqualWidth((2, 15)), tc.Quantile((3, 15)))[i // 2 % 4]
        dtype = dtypes[i // 8 % 4]
        (_, y, p), (_, _, tied) = samples(n, k)
        for title, q in (("distinct", p), ("tied", tied)):
            family = f"any shape, {dtype}".replace("torch.", "")
            what = f"{property}, {rule}, {title}, {n} x {k}"
            yield Case(family, what, composed(property, rule, "l2"), y, q.to(dtype), None)


def composed(property: Any, rule: Any, norm: str) -> Any:
    try:
        return tc.CalibrationError(property, rule, norm)
    except ValueError:  # no such error: an average over cuts has no absolute form
        return None


def apart(case: Case) -> float:
    """The largest relative difference from numpy of the error, and of its parts (U beside the loss)."""
    host = None if case.weight is None else case.weight.cpu()
    there: dict[str, Any] = {"sample_weight": case.weight}
    here: dict[str, Any] = {"sample_weight": host}
    y, p = case.y.cpu(), case.p.cpu()
    ours, theirs = (np.atleast_1d(x) for x in (case.metric(case.y, case.p, **there), case.metric(y, p, **here)))
    worst = float(np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-12)))
    if case.metric.norm == "l1":
        return worst
    device, cpu = case.metric.decompose(case.y, case.p, **there), case.metric.decompose(y, p, **here)
    pairs = [(device.loss, cpu.loss, cpu.loss), (device.score, cpu.score, cpu.score), (device.U, cpu.U, cpu.loss)]
    for a, b, scale in pairs:
        worst = max(worst, float(np.max(np.abs(np.subtract(a, b)) / np.maximum(np.abs(scale), 1e-12))))
    return worst


def against_the_cpu(seconds: float) -> bool:
    """Prints the worst of each family, and gives whether all are 1e-6 or less and none failed."""
    worst: dict[str, tuple[float, str]] = defaultdict(lambda: (-1.0, ""))
    count, skipped, failures = 0, 0, 0
    for case in itertools.chain(shaped_cases(), cases()):
        if time.perf_counter() - BEGUN > seconds:
            skipped += 1
            continue
        try:
            found = apart(case)
            worst[case.family] = max(worst[case.family], (found if found == found else float("inf"), case.what))
            count += 1
        except Exception as problem:  # the other cases are worth having
            failures += 1
            if failures <= 12:
                about = f"{type(problem).__name__}: {str(problem)[:200]}"
                print(f"  FAILED {case.family}, {case.what}: {about}", flush=True)
    print(f"relative differences from numpy, {count} cases, {failures} failed, {skipped} left out for want of time:")
    for family, (value, what) in worst.items():
        verdict = "" if value <= 1e-6 else "TOO LARGE, "
        print(f"  {family:<24} {value:.1e}  {verdict}{what if value else ''}", flush=True)
    return failures == 0 and all(value <= 1e-6 for value, _ in worst.values())


class Handed:
    """An array of another library: it hands over its memory through DLPack and knows nothing else."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.shape, self.ndim = tensor.shape, tensor.ndim

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def other_numbers(y: torch.Tensor, p: torch.Tensor) -> None:
    """What is no error: DLPack, losses, the test's draws, the temperature."""
    y, p = y[:5000], p[:5000, :100].clone()
    p /= p.sum(1, keepdim=True)
    y = y % 100
    host = y.cpu(), p.cpu()

    def relative(a: float, b: float) -> str:
        return f"{abs(a / b - 1):.1e}"

    def dlpack() -> None:
        print("DLPack:", relative(tc.classwise_error(Handed(y), Handed(p)), tc.classwise_error(*host)), flush=True)

    def losses() -> None:
        apart = {name: relative(loss(y, p), loss(*host)) for name, loss in tc.LOSSES.items()}
        print("losses:", apart, flush=True)

    def draws() -> None:
        for error in ("classwise", "confidence"):
            ours = tc.calibration_test(y, p, error=error).details[0]
            theirs = tc.calibration_test(*host, error=error).details[0]
            print(
                f"test of U, {error}: U {relative(ours.U, theirs.U)}; other draws of one law: null sd ratio "
                f"{ours.null_sd / theirs.null_sd:.3f}, p {ours.pvalue:.3f} and {theirs.pvalue:.3f}",
                flush=True,
            )

    def forms() -> None:
        ours, theirs = tc.calibration_test(y, p), tc.calibration_test(*host)
        said = f"p {ours.pvalue:.3f} and {theirs.pvalue:.3f}, {ours.strongest!r} and {theirs.strongest!r}"
        print(f"test of several forms: {said}", flush=True)

    def temperature() -> None:
        logits = 1.5 * p.log()
        ours, theirs = (
            tc.TemperatureScaling().fit(z, t).temperature_ for z, t in ((logits, y), (logits.cpu(), host[0]))
        )
        print("temperature:", relative(ours, theirs), flush=True)

    def models() -> None:
        large, weight = torch.cat([p] * 4), torch.rand(4 * len(y), device=DEVICE)  # many enough to stay there
        ours = tc.evaluate(torch.cat([y] * 4), large, sample_weight=weight)
        theirs = tc.evaluate(torch.cat([y] * 4).cpu(), large.cpu(), sample_weight=weight.cpu())
        names = ("value", "loss", "score")
        pairs = [(getattr(a, x), getattr(b, x)) for a, b in zip(ours.errors, theirs.errors, strict=True) for x in names]
        pairs += [(a.value, b.value) for a, b in zip(ours.losses, theirs.losses, strict=True)]
        print("evaluate:", max(relative(a, b) for a, b in pairs if b), flush=True)

    for work in (dlpack, losses, draws, forms, temperature, models):
        guarded(work.__name__, work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--host", action="store_true", help="also print where the host's time goes")
    parser.add_argument("--shapes", action="store_true", help="also time the kernels with tiles of other shapes")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU here")
    y, p = softmax_sample(options.rows, options.classes)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, n={len(p):,} k={p.shape[1]:,} float32")
    print("kernels in Triton:", "used" if kernels.kernels_for(p) else "none", flush=True)
    right = against_the_cpu(options.seconds)
    other_numbers(y, p)
    targets(y, p)
    guarded("epoch", lambda: epoch(p.shape[1]))
    guarded("whole models", whole_models)
    if options.host:
        guarded("host", lambda: host_times(y, p))
    if options.shapes:
        guarded("shapes", lambda: shapes(y, p))
    print("kernels that could not be compiled:", sorted(map(str, kernels.failed)) or "none")
    print(f"{time.perf_counter() - BEGUN:.0f} s")
    if not right or kernels.failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
