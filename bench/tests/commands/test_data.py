import hashlib
from dataclasses import replace

from click.testing import CliRunner

from simi_mailbox_bench.commands.data import data
from simi_mailbox_bench.datasets import catalogue, loading


def run(*arguments):
    return CliRunner().invoke(data, list(arguments))


def test_list_shows_every_dataset_and_what_is_missing(folder):
    result = run("list")
    assert result.exit_code == 0
    for name in catalogue.names():
        assert name in result.output
    lines = {line.split()[1]: line for line in result.output.splitlines() if line.startswith("│")}
    assert "missing" in lines["Cora"]
    assert "yes" in lines["Digits"]
    assert "5,278" in lines["Cora"]
    assert str(folder) in result.output
    assert "34 missing" in result.output


def test_check_accepts_good_files(folder, tiny, tiny_arrays, monkeypatch):
    loading.write_archive(folder / "Tiny.npz", tiny_arrays)
    known = hashlib.sha256((folder / "Tiny.npz").read_bytes()).hexdigest()
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", replace(tiny, sha256=known))
    result = run("check")
    assert result.exit_code == 0
    assert "checksum matches, 6 nodes" in result.output
    assert "embedded, 1,797 nodes" in result.output


def test_check_fails_on_a_wrong_file_and_goes_on(folder, tiny, tiny_arrays):
    (folder / "Cora.npz").write_bytes(b"not a dataset")
    loading.write_archive(folder / "Tiny.npz", tiny_arrays)
    result = run("check")
    assert result.exit_code == 1
    assert "wrong checksum" in result.output
    assert "6 nodes" in result.output
    assert "1 dataset(s) failed the check" in result.output


def test_check_of_an_unknown_name_lists_the_choices(folder):
    result = run("check", "cor")
    assert result.exit_code == 2
    assert "did you mean 'Cora'?" in result.output
