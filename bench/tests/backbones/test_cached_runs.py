"""Cached runs: settings and keys, nothing trained twice, nothing damaged or outdated read."""

import pytest
import safetensors.torch
import torch

from simi_mailbox_bench.backbones import cached_runs
from simi_mailbox_bench.backbones.cached_runs import (
    SIZES,
    RunCache,
    RunKey,
    read_run_file,
    runs,
    write_run_file,
)
from simi_mailbox_bench.backbones.settings import Settings

KEY = RunKey("Digits", "gcn", "sparse")
SHORT = Settings(epochs=3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Bytes of an intact file, and its logits."""
    bank = RunCache(tmp_path_factory.mktemp("bank"))
    logits = bank.get(KEY, SHORT).logits
    return bank.path(KEY, SHORT).read_bytes(), logits


@pytest.fixture
def bank(tmp_path, trained):
    """A bank that holds the run."""
    bank = RunCache(tmp_path)
    path = bank.path(KEY, SHORT)
    path.parent.mkdir(parents=True)
    path.write_bytes(trained[0])
    return bank


def forbid_training(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the bank trained a run that it has")

    monkeypatch.setattr(cached_runs, "train", refuse)


def test_a_banked_run_is_read_not_trained(bank, trained, monkeypatch):
    forbid_training(monkeypatch)
    run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])
    assert run.epochs == 3
    assert run.key == KEY
    assert run.seconds > 0
    assert run.split.sizes == (200, 500, 1000)


def test_training_again_gives_the_same_bytes_but_for_the_clock(tmp_path, trained):
    assert torch.equal(RunCache(tmp_path).get(KEY, SHORT).logits, trained[1])


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_a_half_written_file_is_trained_anew(bank, trained, share):
    path = bank.path(KEY, SHORT)
    path.write_bytes(trained[0][: int(share * len(trained[0]))])
    with pytest.warns(UserWarning, match="damaged"):
        run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])
    assert bank.find(KEY, SHORT) is not None


@pytest.mark.parametrize("place", [3, 60, 0.2, 0.5, 0.99, "another file"])
def test_a_flipped_bit_anywhere_and_another_file_are_noticed(bank, trained, place):
    content = bytearray(trained[0])
    if place == "another file":
        content = safetensors.torch.save({"logits": torch.ones(2)})
    else:
        content[int(place if place >= 1 else place * len(content))] ^= 4
    bank.path(KEY, SHORT).write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        assert bank.find(KEY, SHORT) is None


def test_a_run_of_other_data_is_trained_anew(bank, trained):
    path = bank.path(KEY, SHORT)
    tensors, facts = read_run_file(path)
    write_run_file(path, tensors, facts | {"data": "0123456789abcdef-0123456789abcdef"})
    with pytest.warns(UserWarning, match="other data"):
        run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])


def test_every_part_of_the_key_and_every_setting_has_its_own_file(tmp_path):
    bank = RunCache(tmp_path)
    keys = [
        KEY,
        RunKey("Cora", "gcn", "sparse"),
        RunKey("Digits", "gat", "sparse"),
        RunKey("Digits", "gcn", "folds"),
        RunKey("Digits", "gcn", "sparse", split=1),
        RunKey("Digits", "gcn", "folds", fold=1),
        RunKey("Digits", "gcn", "sparse", init=1),
    ]
    settings = [Settings(), SHORT, Settings(hidden=32), Settings(weight_decay=0.0)]
    paths = [bank.path(key) for key in keys] + [bank.path(KEY, s) for s in settings[1:]]
    assert len(set(paths)) == len(paths)
    assert len({key.seed for key in keys}) == len(keys)


def test_digests_of_published_settings_do_not_move():
    # Cached logits are found by these: a change orphans every file, so it must be meant.
    assert Settings().digest() == "4dc4ec6fc226"
    assert Settings(weight_decay=0.0).digest() == "d7d94d4b11d9"


def test_forward_of_a_cached_run_gives_its_logits_and_a_gradient(bank):
    run = bank.get(KEY, SHORT)
    forward = run.forward()
    torch.testing.assert_close(forward(), run.logits, atol=1e-5, rtol=1e-4)
    weight = torch.ones(run.dataset.graph.num_entries, requires_grad=True)
    logits = forward(weight)
    torch.testing.assert_close(logits, run.logits, atol=1e-4, rtol=1e-3)
    logits.logsumexp(1).sum().backward()
    assert weight.grad.abs().sum() > 0
    model = run.model()
    assert all(not value.requires_grad for value in model.parameters())
    last = model.plan(run.dataset.graph).layers[1]
    torch.testing.assert_close(model._layer(1, run.hidden, last), run.logits, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="one value for each"):
        forward(torch.ones(7))


def test_backbones_without_edge_weights_say_so(tmp_path):
    run = RunCache(tmp_path).get(RunKey("Digits", "mlp", "sparse"), SHORT)
    with pytest.raises(ValueError, match="backbones that do: gcn, sage"):
        run.forward()(torch.ones(run.dataset.graph.num_entries))


@pytest.mark.parametrize(("protocol", "count"), [("folds", 75), ("official", 50), ("sparse", 10)])
def test_numbers_of_runs_are_the_papers(protocol, count):
    made = runs("Cora", "gcn", protocol)
    assert len(made) == len(set(made)) == count == SIZES[protocol].runs


@pytest.mark.parametrize("protocol", SIZES)
def test_any_first_runs_spread_over_splits(protocol):
    size = SIZES[protocol]
    for limit in range(1, size.runs + 1):
        splits = [run.split for run in runs("Cora", "gcn", protocol, limit)]
        counts = [splits.count(split) for split in range(size.splits)]
        assert max(counts) - min(counts) <= 1
