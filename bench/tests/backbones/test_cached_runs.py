"""The cache of runs: nothing is trained twice, and nothing damaged or outdated is ever read."""

import os
from pathlib import Path

import pytest
import torch

from simi_mailbox_bench.backbones import cached_runs
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, read_run_file, write_run_file
from simi_mailbox_bench.backbones.settings import Settings

KEY = RunKey("Digits", "gcn", "sparse")
SHORT = Settings(epochs=3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, torch.Tensor]:
    """Bytes of an intact file, and its logits."""
    bank = RunCache(tmp_path_factory.mktemp("bank"))
    logits = bank.get(KEY, SHORT).logits
    return bank.path(KEY, SHORT).read_bytes(), logits


@pytest.fixture
def bank(tmp_path: Path, trained: tuple[bytes, torch.Tensor]) -> RunCache:
    """A bank that holds the run."""
    bank = RunCache(tmp_path)
    path = bank.path(KEY, SHORT)
    path.parent.mkdir(parents=True)
    path.write_bytes(trained[0])
    return bank


def forbid_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the bank trained a run that it has")

    monkeypatch.setattr(cached_runs, "train", refuse)


def test_a_banked_run_is_read_not_trained(
    bank: RunCache, trained: tuple[bytes, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_training(monkeypatch)
    run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])
    assert run.epochs == 3
    assert run.key == KEY
    assert run.seconds > 0
    assert run.split.sizes == (200, 500, 1000)


def test_training_again_gives_the_same_bytes_but_for_the_clock(
    tmp_path: Path, trained: tuple[bytes, torch.Tensor]
) -> None:
    assert torch.equal(RunCache(tmp_path).get(KEY, SHORT).logits, trained[1])


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_a_half_written_file_is_trained_anew(
    bank: RunCache, trained: tuple[bytes, torch.Tensor], share: float
) -> None:
    path = bank.path(KEY, SHORT)
    path.write_bytes(trained[0][: int(share * len(trained[0]))])
    with pytest.warns(UserWarning, match="damaged"):
        run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])
    assert bank.find(KEY, SHORT) is not None


@pytest.mark.parametrize("place", [3, 60, 0.2, 0.5, 0.99])
def test_a_flipped_bit_anywhere_is_noticed(
    bank: RunCache, trained: tuple[bytes, torch.Tensor], place: float
) -> None:
    content = bytearray(trained[0])
    content[int(place if place >= 1 else place * len(content))] ^= 4
    bank.path(KEY, SHORT).write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="damaged"):
        assert bank.find(KEY, SHORT) is None


def test_a_foreign_safetensors_file_is_noticed(bank: RunCache) -> None:
    import safetensors.torch

    safetensors.torch.save_file({"logits": torch.ones(2)}, str(bank.path(KEY, SHORT)))
    with pytest.warns(UserWarning, match="damaged"):
        assert bank.find(KEY, SHORT) is None


def test_a_run_of_other_data_is_trained_anew(
    bank: RunCache, trained: tuple[bytes, torch.Tensor]
) -> None:
    path = bank.path(KEY, SHORT)
    tensors, facts = read_run_file(path)
    write_run_file(path, tensors, facts | {"data": "0123456789abcdef-0123456789abcdef"})
    with pytest.warns(UserWarning, match="other data"):
        run = bank.get(KEY, SHORT)
    assert torch.equal(run.logits, trained[1])


def test_a_killed_writer_leaves_neither_the_file_nor_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "run.safetensors"
    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        write_run_file(path, {"logits": torch.ones(3)}, {})
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_stays_whole_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    write_run_file(path, {"logits": torch.ones(3)}, {"epochs": 1})
    replace = os.replace

    def look_first(source: str, target: Path) -> None:
        assert read_run_file(path)[1] == {"epochs": 1}
        assert read_run_file(Path(source))[1] == {"epochs": 2}
        replace(source, target)

    monkeypatch.setattr(os, "replace", look_first)
    write_run_file(path, {"logits": torch.ones(3)}, {"epochs": 2})
    assert read_run_file(path)[1] == {"epochs": 2}


def test_every_part_of_the_key_and_every_setting_has_its_own_file(tmp_path: Path) -> None:
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


def test_digests_of_published_settings_do_not_move() -> None:
    # Cached logits are found by these: a change orphans every file, so it must be meant.
    assert Settings().digest() == "4dc4ec6fc226"
    assert Settings(weight_decay=0.0).digest() == "d7d94d4b11d9"


def test_forward_of_a_banked_run_gives_its_logits_and_a_gradient(bank: RunCache) -> None:
    run = bank.get(KEY, SHORT)
    forward = run.forward()
    torch.testing.assert_close(forward(), run.logits, atol=1e-5, rtol=1e-4)
    weight = torch.ones(run.dataset.graph.num_entries, requires_grad=True)
    logits = forward(weight)
    torch.testing.assert_close(logits, run.logits, atol=1e-4, rtol=1e-3)
    logits.logsumexp(1).sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0
    assert all(not value.requires_grad for value in run.model().parameters())


def test_hidden_enters_the_last_layer(bank: RunCache) -> None:
    run = bank.get(KEY, SHORT)
    model = run.model()
    steps = model.plan(run.dataset.graph)
    logits = model._layer(1, run.hidden, steps.layers[1])
    torch.testing.assert_close(logits, run.logits, atol=1e-5, rtol=1e-4)


def test_backbones_without_edge_weights_say_so(tmp_path: Path) -> None:
    run = RunCache(tmp_path).get(RunKey("Digits", "mlp", "sparse"), SHORT)
    with pytest.raises(ValueError, match="backbones that do: gcn, sage"):
        run.forward()(torch.ones(run.dataset.graph.num_entries))


def test_edge_weights_of_the_wrong_length_are_refused(bank: RunCache) -> None:
    with pytest.raises(ValueError, match="one value for each"):
        bank.get(KEY, SHORT).forward()(torch.ones(7))


def test_an_unknown_backbone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gcn, gat, sage, gin, mlp"):
        RunCache(tmp_path).get(RunKey("Cora", "transformer"))
