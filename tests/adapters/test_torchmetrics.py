"""The torchmetrics adapter: batches, processes, precision and the framework's own life cycle."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import truecal
from closeness import assert_close
from truecal.adapters.torchmetrics import CalibrationMetric

tc: Any = truecal
PATIENCE = timedelta(minutes=10)  # with a process that never comes


def batches(n: int = 90, k: int = 4, parts: int = 3, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5] * k, n).astype(np.float32)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1)
    return [
        (torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(np.split(p, parts), np.split(y, parts), strict=True)
    ]


def whole(data) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat([y for _, y in data]), torch.cat([p for p, _ in data])


def fed(metric, data):
    for p, y in data:
        metric.update(p, y)
    return metric


@pytest.mark.parametrize("scale", ["score", "raw", "loss", "bins"])
@pytest.mark.parametrize("name", ["confidence", "confidence_uncorrected", "classwise"])
def test_batches_add_up_to_the_whole(name, scale):
    data = batches()
    error = tc.CalibrationError(tc.ERRORS[name].property, tc.EqualWidth(6), "l2", name == "confidence" or "auto")
    if name == "confidence_uncorrected":
        error = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(6), "l2", False)
    bins: Any = {} if scale == "score" else {"n_bins": 6}
    metric = fed(CalibrationMetric(name, num_classes=4, scale=scale, **bins), data)
    value = metric.compute()
    assert value.dtype == torch.float64 and value.shape == ()
    assert value.item() == pytest.approx(error(*whole(data), scale=scale), rel=1e-12)


@pytest.mark.parametrize("name", ["confidence_l1", "classwise_l1"])
def test_the_usual_error(name):
    data = batches()
    error = tc.CalibrationError(tc.ERRORS[name].property, tc.EqualWidth(15), "l1")
    assert fed(CalibrationMetric(name, num_classes=4), data).compute().item() == pytest.approx(error(*whole(data)))


def test_binary_of_any_shape_and_frozen_edges():
    u = torch.rand(3, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (u > 0.4).long()
    edges = [0.0, *np.quantile(u, [0.25, 0.5, 0.75]), 1.0]
    metric = CalibrationMetric("binary", edges=edges)
    metric.update(u, y)
    assert metric.compute().item() == pytest.approx(
        tc.binary_error(y.reshape(-1), u.reshape(-1), strategy=tc.Edges(edges)), rel=1e-12
    )
    logits = CalibrationMetric(tc.CalibrationError(tc.Binary(), tc.Edges(edges)), logits=True)
    logits.update(u.logit(), y)
    assert logits.compute().item() == pytest.approx(metric.compute().item(), rel=1e-9)


def test_logits_pixels_and_rows_to_ignore():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, 3, 4, 5, generator=generator)
    y = torch.randint(0, 3, (2, 4, 5), generator=generator)
    y[0, 0] = -100
    metric = CalibrationMetric("confidence", logits=True, ignore_index=-100)
    metric.update(z, y)
    p = z.softmax(1).movedim(1, -1).reshape(-1, 3)[y.reshape(-1) != -100]
    expected = tc.confidence_error(y.reshape(-1)[y.reshape(-1) != -100], p, strategy="uniform", scale="score")
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    metric.update(z[:1, :, :1], y[:1, :1])  # all of them to ignore
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_weights_also_in_some_batches_only():
    (p, y), (q, z) = batches(60, parts=2)
    w = torch.linspace(0.5, 5, 30, dtype=torch.float64)
    metric = CalibrationMetric("classwise", num_classes=4)
    metric.update(p, y, w)
    metric.update(q, z)
    expected = tc.classwise_error(
        torch.cat([y, z]),
        torch.cat([p, q]),
        strategy="uniform",
        scale="score",
        sample_weight=torch.cat([w, torch.ones(30, dtype=torch.float64)]),
    )
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_nothing_is_guessed():
    metric = CalibrationMetric("confidence")
    metric.update(torch.tensor([[3.0, -1.0]]), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"update 1 since the last reset: preds must be probabilities"):
        metric.compute()


def test_forward_gives_the_value_of_a_batch_and_adds_it():
    data = batches()
    metric = CalibrationMetric("classwise", num_classes=4)
    each = [metric(p, y).item() for p, y in data]
    assert each == pytest.approx(
        [fed(CalibrationMetric("classwise", num_classes=4), [b]).compute().item() for b in data]
    )
    assert_close(metric.compute().item(), fed(CalibrationMetric("classwise", num_classes=4), data).compute().item(), 1)


def test_reset_clone_and_the_saved_state():
    data = batches()
    metric = fed(CalibrationMetric("confidence"), data)
    value = metric.compute().item()
    other = CalibrationMetric("confidence")
    assert not metric.state_dict()  # as of any metric of torchmetrics: a checkpoint holds no sums of its own epoch
    metric.persistent(True)
    other.load_state_dict(metric.state_dict())
    assert_close(metric.clone().compute().item(), value, 1)
    assert other._update_count == 0
    assert_close(other._value(other.table), value, 1)
    metric.reset()
    assert metric.table.rows == 0
    assert_close(fed(metric, data).compute().item(), value, 1)


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_before_the_first_row_there_is_no_value():
    assert CalibrationMetric("confidence").compute().isnan()


@pytest.mark.parametrize(
    "narrow",
    [
        lambda metric: metric.half(),
        lambda metric: metric.set_dtype(torch.float16),
        lambda metric: metric.to(dtype=torch.bfloat16),
        lambda metric: torch.nn.ModuleList([metric]).half()[0],
        lambda metric: torch.nn.ModuleList([metric]).to(torch.float16)[0],
    ],
)
def test_sums_stay_in_float64(narrow):
    data = batches()
    metric = narrow(fed(CalibrationMetric("confidence"), data[:2]))
    assert {metric.cells.dtype, metric.totals.dtype, metric.largest.dtype} == {torch.float64}
    metric.update(*data[2])
    assert_close(metric.compute().item(), fed(CalibrationMetric("confidence"), data).compute().item(), 1)
    metric.reset()
    assert metric.cells.dtype == torch.float64


def test_sums_move_with_the_module():
    metric = fed(CalibrationMetric("confidence"), batches()).to("meta")
    assert metric.cells.device.type == metric.totals.device.type == "meta"


def test_a_collection_shares_the_sums():
    data = batches()
    collection = MetricCollection(
        {
            "loss": CalibrationMetric("confidence", scale="loss"),
            "error": CalibrationMetric("confidence", scale="raw"),
        },
        compute_groups=True,
    )
    for p, y in data:
        collection.update(p, y)
    assert len(collection.compute_groups) == 1
    found = collection.compute()
    assert_close(found["loss"].item(), fed(CalibrationMetric("confidence", scale="loss"), data).compute().item(), 1)
    assert_close(found["error"].item(), fed(CalibrationMetric("confidence", scale="raw"), data).compute().item(), 1)


OTHERS = [
    {"edges": [0, 0.2, 0.9, 1]},
    {"n_bins": 3, "ignore_index": 3},
    {"n_bins": 3, "logits": True},
    {"error": "classwise", "n_bins": 3, "num_classes": 4},
    {"n_bins": 2},
]


@pytest.mark.parametrize("empty", [True, False], ids=["no rows", "rows that are alike to both"])
@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_a_collection_keeps_other_sums_apart(options, empty):
    """It compares the states after the first batch, which need not tell one metric from another."""
    first = (torch.eye(4)[: 0 if empty else 2], torch.arange(0 if empty else 2))
    data = [first, *batches()]
    collection = MetricCollection(
        {
            "one": CalibrationMetric("confidence", n_bins=3),
            "other": CalibrationMetric(**{"error": "confidence"} | options),
        }
    )
    for p, y in data:
        collection.update(p, y)
    assert_close(
        collection.compute()["other"].item(),
        fed(CalibrationMetric(**{"error": "confidence"} | options), data).compute().item(),
        1,
    )


@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_sums_of_another_metric_are_refused(options):
    data = batches()
    other = fed(CalibrationMetric(**{"error": "confidence"} | options), data)
    other.persistent(True)
    loaded = CalibrationMetric("confidence", n_bins=3)
    loaded.load_state_dict(other.state_dict())
    if loaded.cells.shape != CalibrationMetric("confidence", n_bins=3).cells.shape:
        with pytest.raises(ValueError, match="state comes from a metric with other options"):
            loaded.update(*data[0])
    with pytest.raises(ValueError, match="state comes from a metric with other options"):
        _ = loaded.table
    loaded.reset()
    assert_close(
        fed(loaded, data).compute().item(), fed(CalibrationMetric("confidence", n_bins=3), data).compute().item(), 1
    )


def test_states_merge():
    data = batches()
    one, other = (fed(CalibrationMetric("confidence", n_bins=15), part) for part in (data[:1], data[1:]))
    one.merge_state(other)
    whole = fed(CalibrationMetric("confidence", n_bins=15), data).compute().item()
    assert one.compute().item() == pytest.approx(whole, rel=1e-12)
    one.merge_state(fed(CalibrationMetric("confidence", edges=torch.linspace(0, 1, 16) ** 2), data))
    with pytest.raises(ValueError, match="state comes from a metric with other options"):
        _ = one.table


def test_a_pickled_metric_goes_on():
    data = batches()
    metric = pickle.loads(pickle.dumps(fed(CalibrationMetric("confidence"), data[:2])))
    assert_close(fed(metric, data[2:]).compute().item(), fed(CalibrationMetric("confidence"), data).compute().item(), 1)


def test_edges_of_each_class():
    data = batches()
    edges = [[0, 0.1 * j + 0.1, 0.9, 1] for j in range(4)]
    metric = fed(CalibrationMetric("classwise", num_classes=4, edges=edges), data)
    expected = tc.classwise_error(*whole(data), strategy=tc.Edges(edges))
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_the_table_reads_like_any_other():
    data = batches()
    table = fed(CalibrationMetric("confidence", n_bins=6), data).table
    error = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(6))
    theirs = error.tables(*whole(data))[0]
    np.testing.assert_allclose(table.count, theirs.count)
    np.testing.assert_allclose(table.mean_outcome, theirs.mean_outcome)
    np.testing.assert_allclose(error.parts_of_table(table), error.parts_of_table(theirs), rtol=1e-12)


def test_it_is_drawn():
    figure, _ = fed(CalibrationMetric("confidence"), batches()).plot()
    assert figure.axes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"error": tc.ERRORS["confidence"]}, r"needs all predictions at once.*Edges"),
        ({"error": tc.CalibrationError(tc.Confidence(), tc.EqualWidth((2, 3)))}, "needs all predictions at once"),
        ({"error": tc.CalibrationError(tc.Confidence(), tc.EqualWidth(3)), "n_bins": 4}, "cannot be used"),
        ({"error": "full"}, "confidence, classwise or binary"),
        ({"error": "classwise"}, "num_classes is needed"),
        ({"error": "binary", "num_classes": 2}, "num_classes cannot be used"),
        ({"num_classes": 0}, "num_classes must be at least 1"),
        (
            {"error": "classwise", "num_classes": 3, "edges": [[0, 0.5, 1]] * 2},
            "edges has rows for 2 views, expected 3",
        ),
        ({"n_bins": 3, "edges": [0, 1]}, "not both"),
        ({"error": "confidence_l1", "scale": "score"}, "cannot be used with norm='l1'"),
        ({"scale": "best"}, "scale must be one of"),
    ],
)
def test_options_that_cannot_apply(options, words):
    with pytest.raises(ValueError, match=words):
        CalibrationMetric(**{"error": "confidence"} | options)


@pytest.mark.parametrize("name", ["classwise", "confidence"])
def test_another_number_of_classes(name):
    with pytest.raises(ValueError, match="preds have 4 classes and num_classes is 3"):
        CalibrationMetric(name, num_classes=3).update(*batches()[0])


@pytest.mark.parametrize(
    ("error", "preds", "target", "words"),
    [
        ("confidence", (8,), (8,), r"preds must be \(N, C, ...\), got shape \(8,\); for one event use error='binary'"),
        ("confidence", (8, 3), (8, 3), r"target must have one value .* shape \(8,\), got \(8, 3\)"),
        ("confidence", (2, 3, 4), (4, 2), r"shape \(2, 4\), got \(4, 2\)"),  # as many, in other places
        ("binary", (8, 2), (8,), r"shape \(8, 2\), got \(8,\)"),
    ],
)
def test_shapes_that_do_not_fit(error, preds, target, words):
    with pytest.raises(ValueError, match=words):
        CalibrationMetric(error, logits=True).update(torch.zeros(preds), torch.zeros(target, dtype=torch.long))


def test_axes_of_length_one_do_not_count():
    p, y = torch.tensor([0.2, 0.9, 0.7]), torch.tensor([0, 1, 0])
    metric = fed(CalibrationMetric("binary"), [(p[:, None], y)])
    assert_close(metric.compute().item(), fed(CalibrationMetric("binary"), [(p, y[:, None])]).compute().item(), 1)
    with pytest.raises(ValueError, match=r"sample_weight must have one value .* got \(2,\)"):
        metric.update(p, y, torch.ones(2))


def one_process(rank: int, folder: Path) -> None:
    """The second of two processes sees no data at all."""
    meet = f"file://{folder}/meet"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=2, timeout=PATIENCE)
    try:
        for metric in (CalibrationMetric("confidence"), CalibrationMetric("classwise", num_classes=4, n_bins=7)):
            if rank == 0:
                fed(metric, batches())
            (folder / f"{rank}-{metric.error.symbol}").write_text(repr(metric.compute().item()))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.heavy
def test_real_processes_one_of_them_empty(tmp_path):
    code = f"import test_torchmetrics as here; here.one_process(1, here.Path({str(tmp_path)!r}))"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}) as other:
        one_process(0, tmp_path)  # this process is the first
    assert other.returncode == 0
    for metric in (CalibrationMetric("confidence"), CalibrationMetric("classwise", num_classes=4, n_bins=7)):
        value = fed(metric, batches()).compute().item()
        for rank in (0, 1):
            assert_close(float((tmp_path / f"{rank}-{metric.error.symbol}").read_text()), value, 1)


def test_lists_are_refused_in_words():
    metric: Any = CalibrationMetric("binary")
    for preds, target, name in (([0.5], torch.tensor([1]), "preds"), (torch.tensor([0.5]), [1], "target")):
        with pytest.raises(TypeError, match=f"{name} must be a torch.Tensor, got .*: torch.as_tensor makes one"):
            metric.update(preds, target)
    with pytest.raises(TypeError, match=r"sample_weight must be a torch\.Tensor"):
        metric.update(torch.tensor([0.5]), torch.tensor([1]), [1.0])


@pytest.mark.parametrize("error", ["ordinal", "labelwise", "distribution"])
def test_kinds_that_a_stream_takes_are_named_there(error):
    with pytest.raises(ValueError, match=r"truecal\.stream takes other kinds in batches"):
        CalibrationMetric(error, num_classes=4)
