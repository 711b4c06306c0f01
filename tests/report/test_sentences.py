"""Sentences say what the numbers say."""

import numpy as np

from simi_mailbox.analysis import judge
from simi_mailbox.report import gather, read_inputs, sentences


def content(blocks_before, blocks_after=None):
    """A report on nodes given as (confidence, accuracy, count) before and after."""
    probs = np.concatenate([np.tile([c, 1 - c], (n, 1)) for c, _, n in blocks_before])
    y = np.concatenate(
        [np.repeat([0, 1], [round(a * n), n - round(a * n)]) for _, a, n in blocks_before]
    )
    methods = {}
    if blocks_after is not None:
        methods["ours"] = np.concatenate([np.tile([c, 1 - c], (n, 1)) for c, n in blocks_after])
    inputs = read_inputs(np.log(probs), y=y, test=np.arange(len(y)))
    return gather(inputs, methods, title="t")


def words(pieces):
    return "".join(text for text, _ in pieces).replace("\u202f", " ")


def test_the_first_sentence_names_its_bin():
    made = content([(0.90, 0.81, 200), (0.99, 0.89, 300)], [(0.81, 200), (0.90, 300)])
    assert words(sentences.verdict(made)) == (
        "Of 200 nodes with confidence 85 to 95 %, 81 % were right. "
        "After ours: 89 % of 300 nodes in this bin (87 % to 93 % if calibrated)."
    )
    # Too few nodes make no such sentence.
    made = content([(0.99, 0.5, 100), (0.9, 0.1, 10)])
    assert words(sentences.verdict(made)).startswith("The mean confidence is 98 %, the accuracy")


def test_the_bin_is_the_one_with_the_most_nodes_before_and_after():
    def at(*blocks):
        probs = np.concatenate([np.tile([c, 1 - c], (n, 1)) for c, n in blocks])
        return judge(probs, np.zeros(len(probs), dtype=int))

    before, after = at((0.8, 400), (0.6, 90)), at((0.8, 40), (0.6, 80), (0.9, 370))
    assert sentences.fullest_bin(before, before) == (0.75, 0.85)
    assert sentences.fullest_bin(before, after) == (0.55, 0.65)
    assert sentences.fullest_bin(at((0.9, 29)), at((0.9, 29))) is None


def test_chance_covers_what_a_true_model_shows():
    rng = np.random.default_rng(0)
    rights = rng.binomial(200, 0.8, size=2000) / 200
    text = sentences.by_chance(sentences.Bin(0.75, 0.85, 200, 0.8, 0.8)).replace("\u202f", " ")
    low, high = (int(word) / 100 for word in text.split() if word.isdigit())
    assert 0.93 < ((rights >= low) & (rights <= high)).mean() < 0.98


def test_direction_and_standing_are_compared_with_noise():
    for block, direction in (
        ((0.9, 0.5, 500), "over-confident"),
        ((0.6, 0.9, 500), "under-confident"),
        ((0.8, 0.79, 100), "calibrated"),
    ):
        view = content([block]).before
        assert sentences.direction(view).endswith(f": {direction} on average.")
        words = "cannot be told from perfect" if direction == "calibrated" else "is miscalibrated"
        assert words in sentences.standing(view)


def test_examples_leave_out_bins_with_few_nodes():
    lines = sentences.examples(content([(0.9, 0.8, 100), (0.7, 0.5, 20)]).before)
    assert [line.replace("\u202f", " ") for line in lines] == [
        "Of 100 nodes with confidence 85 to 95 %, 80 % were right."
    ]


def test_change_names_direction_and_changed_classes():
    made = content([(0.9, 0.8, 100)], [(0.7, 100)])
    text = sentences.change(*made.views).replace("\u202f", " ")
    assert text == (
        "It lowers the mean confidence from 90.0 % to 70.0 %. No predicted class changes."
    )
    flipped = content([(0.9, 0.8, 100)], [(0.7, 99), (0.3, 1)])
    assert "The predicted class of 1 of 100 nodes changes." in sentences.change(*flipped.views)
