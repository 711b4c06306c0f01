# %% [markdown]
# # Files and the shell
#
# A model is not always at hand; its outputs are. Here are three files of a GNN on handwritten
# digits, as a colleague might send them: logits of all images, who looks like whom, and the
# digits of some.

# %%
import shlex

import numpy as np
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.demo import run_demo

digits = run_demo(example="digits")
names = [f"image-{k:04d}" for k in range(len(digits.y))]


def write(path, header, rows):
    lines = [",".join(map(str, row)) for row in (header, *rows)]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


classes = [f"digit-{k}" for k in range(10)]
rows = zip(names, digits.logits, strict=True)
write("logits.csv", ["image", *classes], ([name, *z] for name, z in rows))
edges = digits.graph.edge_index().numpy()
write("edges.csv", ["source", "target"], ([names[a], names[b]] for a, b in edges.T if a < b))
known = np.concatenate([digits.val, digits.test])
write("labels.csv", ["image", "label"], ([names[k], classes[digits.y[k]]] for k in known))
write("val.csv", ["image"], ([names[k]] for k in digits.val))

# %% [markdown]
# From here on it is the shell. (The page calls the command from Python, to have its output here.)


# %%
def shell(line):
    result = CliRunner().invoke(cli, shlex.split(line)[1:], env={"COLUMNS": "100"})
    print(f"$ {line}\n{result.output}")


shell(
    "simi-mailbox evaluate logits.csv --input-type logits --labels labels.csv --calibration val.csv"
)

# %%
shell(
    "simi-mailbox calibrate logits.csv --edges edges.csv --labels labels.csv --calibration val.csv "
    "--out probs.csv --save cal.safetensors"
)

# %%
shell("simi-mailbox evaluate probs.csv --labels labels.csv --calibration val.csv")

# %% [markdown]
# Is another method better? The calibration labels can tell, by cross-fitting, as far as so many
# labels can tell anything.

# %%
shell(
    "simi-mailbox compare logits.csv --edges edges.csv --labels labels.csv --calibration val.csv "
    "--methods uncalibrated,temperature,simi-mailbox"
)

# %% [markdown]
# The saved calibrator works on tomorrow's files, without labels: `simi-mailbox apply
# cal.safetensors later.csv --edges …`. All options and formats: [from the shell](../../shell.md).
