"""Every snippet of the pages about the bench runs, and the commands on all pages exist."""

import shlex
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from tests.pages import BENCH_PAGES, DOCS, PAGES, blocks, command_lines, parse, run_line, run_page
from tests.test_pages import arrays

from simi_mailbox.cli.group import cli
from simi_mailbox_bench import datasets, ood


@pytest.mark.parametrize(("page", "line"), command_lines(bench=True))
def test_commands_of_the_pages_exist_and_take_their_options(page, line):
    parse(cli, shlex.split(line)[1:])


def test_a_command_that_is_not_there_is_found_out():
    with pytest.raises(click.NoSuchOption):
        parse(cli, ["bench", "table1", "--no-such-option"])
    assert len(command_lines(bench=True)) > 10


def test_the_library_needs_no_page_of_the_bench():
    shown = {p.stem for p in PAGES if any("simi_mailbox_bench" in b for b in blocks(p, "python"))}
    assert shown == set(BENCH_PAGES)


def test_backbones_and_prior_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page("backbones.md")["cached"].logits.shape == (1797, 10)
    run_page("prior.md", **arrays())
    assert Path("clinic-2025-0.npz").exists()


def test_what_is_stored_is_shown_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").symlink_to(DOCS.parent / "results")
    assert "Cora" in run_line("data list")
    run_line("bench nll --show --format markdown")
    assert Path("nll.md").read_text("utf-8").startswith("# nll: ")


def test_data_page():
    if "Cora" not in datasets.available():
        pytest.skip("Cora is not here")
    names = run_page("data.md")
    assert not np.intersect1d(names["split"].train, names["split"].test).size


def test_self_training_page(capsys):
    names = run_page("self-training.md")
    assert names["result"].predictions.shape == (1797,)
    assert (names["result"].pseudo_labels >= 0).sum() > 50
    # The page shows self-training that helps, and says how it comes to harm.
    first, last = names["result"].stages[0], names["result"].stages[-1]
    assert last.test_accuracy > first.test_accuracy + 0.02
    assert names["safe"].kept == 1 + np.argmax([s.val_accuracy for s in names["safe"].stages])
    assert names["mine"].stages[0].added.size > 0
    assert "stage" in capsys.readouterr().out


def test_ood_page(capsys):
    names = run_page("ood.md")
    assert "Detection(auroc=" in capsys.readouterr().out
    assert ood.evaluate(names["known"], names["unknown"]).auroc > 0.95
    assert names["score"].shape == (1797,)


def test_gpn_page():
    names = run_page("gpn.md")
    probabilities = names["probabilities"]
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(1797))
    assert bool((names["prediction"].evidence > 0).any())
