# %% [markdown]
# # Fraud: whom to review
#
# FDCompCN: 5,317 Chinese companies, linked by investment, supply and sales; 10.5 % committed fraud
# in their statements (SplitGNN, 2023). Half of the companies have no link at all. The split is the
# published one: 2,126 companies train a GraphSAGE network, 1,053 choose its checkpoint and
# calibrate it, 2,138 are only judged. The network was trained with class weights, as is usual where
# the class that matters is rare. No seed was picked.

# %%
from matplotlib.figure import Figure

from simi_mailbox import calibrators, decide, metrics
from simi_mailbox_bench.backbones.cached_runs import RunKey, load_logits

source = load_logits(RunKey("FDCompCN-weighted", "sage", "public"))
logits, data, split = source.logits.numpy(), source.dataset, source.split
y, test = data.y, split.test
print(f"{y.mean():.1%} fraud; {(data.graph.degree == 0).double().mean():.0%} without a link")

# %% [markdown]
# ## Class weights, and what they do to a probability
#
# With weights w₀ and w₁ in the loss, the network learns odds that are w₁ / w₀ times too high. The
# ranking is unharmed, the probabilities are not. Taking the factor out is exact; calibration then
# learns what is left, or, if the weights are forgotten, the factor as well.

# %%
share = y[split.train].mean()
weights = {"class_weights": [0.5 / (1 - share), 0.5 / share]}
given = {"mask": split.val, "graph": data.graph}


def fraud(name, **more):
    """P(fraud) of all companies."""
    cal = calibrators.get(name)().fit(logits, y, **given, **more)
    return cal.predict_proba(logits, graph=data.graph)[:, 1]


said = {
    "as trained": fraud("uncalibrated"),
    "weights taken out": fraud("uncalibrated", prior_shift=weights),
    "platt": fraud("platt"),
    "simi-mailbox-free": fraud("simi-mailbox-free"),
}
for name, p in said.items():
    ece, auprc = metrics.class_ece(p[test], y[test]), metrics.average_precision(p[test], y[test])
    print(
        f"{name:18} expects {p[test].sum():5.0f} of {y[test].sum()} frauds; "
        f"ECE of P(fraud) {ece:.1%}, AUPRC {auprc:.1%}"
    )

# %%
figure = Figure(figsize=(11, 3.2), layout="constrained")
for ax, (name, p) in zip(figure.subplots(1, 4, sharey=True), said.items(), strict=True):
    curve = metrics.class_reliability(p[test], y[test], bins=8, binning="mass")
    ax.plot([0, 1], [0, 1], color="0.8")
    ax.plot(curve.confidence, curve.accuracy, "o-")
    ax.set(title=name, xlabel="stated P(fraud)", xlim=(0, 0.9), ylim=(0, 0.9))
label = figure.axes[0].set_ylabel("share of fraud")

# %% [markdown]
# ## Whom to review
#
# "At most 5 % errors" is no goal here: who calls no company a fraud is right about 90 %. A desk
# asks for precision, for recall, or says how many it can review. The guarantee holds with 90 %
# probability over the draw of the companies with labels; where it cannot be given, the rule says
# so instead of alerting.

# %%
p = said["platt"]
for goal in ({"min_recall": 0.5}, {"min_precision": 0.25}, {"max_alerts": 100}):
    rule = decide.Alert(**goal).fit(p, y, mask=split.val)
    caught = int(y[test][rule.alerts(p[test])].sum())
    print(goal, "→", rule.expected(p[test]).sentence("frauds"), f"(caught {caught})")

# %% [markdown]
# ## A harder one: banned users of Reddit
#
# 10,000 users and the subreddits they write in; 3.7 % were banned. Features say next to nothing,
# and no user is linked with a user. Expect little: the point is that the numbers say so.

# %%
source = load_logits(RunKey("RedditBans", "sage", "random-50-25-25"))
logits, data, split = source.logits.numpy(), source.dataset, source.split
y, test, given = data.y, split.test, {"mask": split.val, "graph": data.graph}
p = fraud("platt")
print(f"AUPRC {metrics.average_precision(p[test], y[test]):.1%} at {y[test].mean():.1%} banned")
rule = decide.Alert(max_alerts=100).fit(p, y, mask=split.val)
caught = int(y[test][rule.alerts(p[test])].sum())
print(rule.expected(p[test]).sentence("banned users"), f"(caught {caught})")

# %% [markdown]
# Rules, guarantees and what they cost in labels: [decide](../../decide.md). The same from CSV
# files: [shell](../../shell.md). All methods on all two-class graphs: the bench's table `binary`.
