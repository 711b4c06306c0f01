"""`simi-mailbox monitor`: can the probabilities of new nodes be trusted?"""

import json
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user


@options.file_command(
    *("calibrator", "logits"),
    parts=("edges", "features", "hidden", "known", "test", "ids", "classes"),
    input_type=None,
    test="Nodes to check: ids, or a mask. If not given: all but the calibration nodes.",
)
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file that is read if it is there, and written: alarms over many days.",
)
@click.option("--seed", default=0, help="Of permutations and nodes to label.")
@options.json_option
def monitor(
    calibrator: Path, logits: Path, stream: Path | None, seed: int, as_json: bool, **given: Any
) -> None:
    """Say whether to trust a CALIBRATOR on LOGITS (all nodes) whose labels are not known yet.

    Judged are the nodes of --test, or all but the calibration nodes. --features give a second
    opinion, --known labels the surest one. The verdict is ok, watch, do not trust or unknown.
    """
    from simi_mailbox.monitor import Monitor, Stream

    with console.complaints() as told:
        fitted, problem = user.loaded(calibrator, logits, given, "a monitor needs a simi-mailbox")
        watch = Monitor(fitted, seed=seed)
        if stream is not None:
            options.check_file(stream)
            if stream.exists():
                try:
                    watch.stream = Stream.from_dict(json.loads(stream.read_text("utf-8")))
                except (ValueError, KeyError, TypeError):
                    message = f"{stream} is no stream that monitor has written: name another"
                    raise ValueError(message) from None
        inputs = user.inputs(fitted, problem) | {"features": problem.features}
        inputs |= user.known_labels(fitted, problem)
        del inputs["train_mask"]
        with console.working(f"looking at {problem.nodes.count:,} nodes"):
            found = watch.check(problem.values, nodes=problem.sets.get("test"), **inputs)
        facts = found.to_dict()
        if stream is not None:
            state = watch.update(found).to_dict()
            stream.write_text(json.dumps(state), "utf-8")
            facts["stream"] = {name: state[name] for name in state if name != "wealth"}
    if as_json:
        console.show_json({**facts, "warnings": told})
        return
    click.echo(str(found))
    if facts["to_label"]:
        click.echo("label: " + ", ".join(map(str, facts["to_label"])))
    if stream is not None:
        click.echo(f"stream: {facts['stream']['sentence']}")
