"""Evidence in compiled loops, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simi_mailbox import Graph, SimiMailbox, fast
from simi_mailbox.prior.baseline import COLDER, Baseline, nearest_exponents
from simi_mailbox.prior.evidence import CLASSES, EXPONENTS, Evidence, Known
from simi_mailbox.prior.lines import MANY, Lines
from simi_mailbox.validation import Labelled

kernels = pytest.importorskip("simi_mailbox.compiled")
N = 200


def both(k, *, directed=False, trained=False, dtype=np.float32):
    """The same evidence twice, and the names of its terms."""
    rng = np.random.default_rng(k)
    graph = Graph.from_edges(rng.integers(0, N - 5, (2, 4 * N)), N, directed=directed)
    z = torch.from_numpy((rng.normal(size=(N, k)) * 2).astype(dtype))
    y = torch.from_numpy(rng.integers(k, size=N))
    mine, theirs = (torch.from_numpy(rng.permutation(N)[:m]) for m in (40, 30))
    known = Known(Labelled(mine, y[mine]), Labelled(theirs, y[theirs]) if trained else None)
    closeness = torch.from_numpy(rng.normal(size=(N, k)).astype(dtype))
    found = Evidence(z, graph, 1.5), Lines(z, graph, 1.5, None, kernels)
    for evidence in found:
        evidence.hear(known)
        evidence.closeness = closeness
    names = tuple(name for name in CLASSES if trained or not name.startswith("trained"))
    return *found, names


def some_baseline(names):
    rng = np.random.default_rng(0)
    return Baseline(1.4, 0.0, {name: rng.normal() * 0.5 for name in (*EXPONENTS, *names)})


# Classes that fill panels of 16, 8 or 5 (32, 16 or 10) leave the counts a panel of their own.
CASES = [(3, False), (7, False), (16, False), (41, False), (4, True), (5, True), (10, True)]
CASES += [(15, True), (32, False)]


@pytest.mark.parametrize("many", [MANY, 0])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("k", "trained"), CASES)
def test_terms_and_temperatures_are_those_of_the_reference(k, trained, directed, many, monkeypatch):
    monkeypatch.setattr("simi_mailbox.prior.lines.MANY", many)
    reference, lines, names = both(k, trained=trained, directed=directed)
    rows = torch.from_numpy(np.random.default_rng(1).permutation(N)[:30])
    expected, found = reference.classes(rows, names), lines.classes(rows, names)
    for name in names:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=2e-6, msg=name)
    torch.testing.assert_close(lines.terms, reference.terms, rtol=0, atol=1e-6)
    baseline = some_baseline(names)
    exponents = baseline.exponents(reference.terms, 1.5)
    gaps = reference.gaps(slice(None))
    scores = baseline.scores(exponents, gaps, reference.classes(slice(None), names))
    moved = torch.empty_like(scores)
    lines.apply(baseline.terms, exponents, moved)
    torch.testing.assert_close(moved.softmax(1), scores.softmax(1), rtol=0, atol=2e-6)
    nearest = nearest_exponents(gaps, exponents, scores)
    lines.apply(baseline.terms, exponents, None)
    torch.testing.assert_close(exponents, nearest, rtol=0, atol=2e-5)


def test_temperatures_after_a_hot_baseline_are_those_of_the_reference():
    reference, lines, _ = both(7)
    for evidence in (reference, lines):  # it says what the logits would have said
        evidence.closeness = reference.logits
    baseline = Baseline(40.0, 0.0, {"hidden": 0.5})
    exponents = baseline.exponents(reference.terms, 1.5)
    gaps = reference.gaps(slice(None))
    scores = baseline.scores(exponents, gaps, reference.classes(slice(None), ("hidden",)))
    nearest = nearest_exponents(gaps, exponents, scores)
    assert (nearest > exponents + COLDER + 0.1).any()
    lines.apply(baseline.terms, exponents, None)
    torch.testing.assert_close(exponents, nearest, rtol=0, atol=2e-5)


def test_double_precision_stays_double():
    reference, lines, names = both(7, trained=True, dtype=np.float64)
    expected, found = (e.classes(slice(None), names) for e in (reference, lines))
    for name in names:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-12, msg=name)


@pytest.mark.parametrize("first", ["similarity", "evidence"])
def test_the_overlap_is_that_of_the_reference_whoever_asks_first(first):
    reference, lines, names = both(19)
    if first == "evidence":
        baseline = some_baseline(names)
        lines.apply(baseline.terms, baseline.exponents(lines.terms, 1.5), None)
    torch.testing.assert_close(lines.similarity, reference.similarity, rtol=0, atol=1e-7)
    for field in ("centre", "spread", "mass", "alone"):
        expected = getattr(reference.frame, field)
        np.testing.assert_allclose(getattr(lines.frame, field), expected, atol=1e-7)


def test_a_frame_that_was_given_stays():
    reference, *_ = both(4)
    lines = Lines(reference.logits, Graph.empty(N), 1.5, reference.frame, kernels)
    assert float(lines.similarity[0]) == reference.frame.alone  # nobody has neighbours here
    assert lines.frame is reference.frame


@pytest.mark.parametrize("keep", [True, False])
def test_the_default_gives_the_same_with_compiled_loops(monkeypatch, keep):
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=1500)
    ends = rng.integers(1500, size=(2, 40_000))
    graph = Graph.from_edges(
        ends[:, y[ends[0]] == y[ends[1]]][:, :4000], 1500
    )  # labels nearby tell
    z = (np.eye(6)[y] + rng.normal(size=(1500, 6))).astype(np.float32)
    given = {"graph": graph, "train_mask": range(300, 400)}
    later = (range(400, 500), y[400:500])
    results = []
    for worth in (1 << 60, 0):
        monkeypatch.setattr(fast, "WORTH_NODES", worth)
        calibrator = SimiMailbox(keep_classes=keep)
        calibrator.fit(z, y, mask=range(300), **given)
        graph.__dict__.pop("memory", None)
        probs = calibrator.predict_proba(z, **given)
        results.append((calibrator, probs, calibrator.predict_proba(z, **given, known=later)))
    (one, *expected), (other, *found) = results
    np.testing.assert_allclose(other.temperatures_, one.temperatures_, rtol=1e-5)
    for name, value in one.baseline_.items():
        assert other.baseline_[name] == pytest.approx(value, abs=1e-4), name
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01  # the later labels were heard
