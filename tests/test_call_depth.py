"""How many files of the library a call passes through, and how deep they call each other."""

import sys
from pathlib import Path

import pytest

import simi_mailbox
from simi_mailbox import SimiMailbox, TemperatureScaling, scale
from tests.golden.inputs import sample, write_shards

SOURCE = str(Path(simi_mailbox.__file__).parent)


def footprint(call, *sources):
    """Files below ``sources`` whose functions run during a call, and the depth of their frames.

    Comprehensions and lambdas are no step of their own, nor is code that runs on import.
    """
    files: set[str] = set()
    depth = deepest = 0

    def counted(frame):
        code = frame.f_code
        return code.co_filename.startswith(sources) and not code.co_name.startswith("<")

    def watch(frame, event, _):
        nonlocal depth, deepest
        if event not in ("call", "return") or not counted(frame):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        files.add(frame.f_code.co_filename)

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return files, deepest


def default_fit(_):
    given = sample(4, 0)
    SimiMailbox().fit(given.logits, given.y, graph=given.edges, mask=given.mask)


def temperature_fit(_):
    given = sample(4, 0)
    TemperatureScaling().fit(given.logits, given.y, mask=given.mask)


def scale_calibrate(folder):
    write_shards(folder / "in", sample(4, 0))
    scale.calibrate(folder / "in", folder / "out", engine="disk")


@pytest.mark.parametrize(
    ("call", "most_files", "most_depth"),
    [(temperature_fit, 8, 8), (default_fit, 12, 10), (scale_calibrate, 18, 12)],
)
def test_a_call_is_short_to_follow(call, most_files, most_depth, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    call(tmp_path / "first")  # what is only done once, such as imports, is no part of the call
    files, depth = footprint(lambda: call(tmp_path / "again"), SOURCE)
    assert (2 <= len(files) <= most_files, 2 <= depth <= most_depth) == (True, True), (
        f"{len(files)} files (at most {most_files}), depth {depth} (at most {most_depth}): "
        f"{', '.join(sorted(files))}"
    )


def test_files_and_depth_are_counted():
    from simi_mailbox.metrics import accuracy

    given = sample(2, 1)
    probs = given.features[:, :2] * 0 + 0.5
    files, depth = footprint(lambda: accuracy(probs, given.y), SOURCE)
    found = {str(Path(file).relative_to(SOURCE)) for file in files}
    assert {"metrics/scores.py", "metrics/_inputs.py"} <= found
    assert depth >= 2
    assert footprint(lambda: None, SOURCE) == (set(), 0)
