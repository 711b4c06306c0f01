# %% [markdown]
# # Fraud: a threshold that costs money
#
# 6,000 accounts, few of them fraudulent. Some accounts are people, each a witness of its own;
# some are rings that were made by one script and look alike. The data are made
# ([`copied_pages`](../../data.md#synthetic-graphs)), so that we know what no bank knows: the true
# probability of fraud of every account. They are made so that one temperature cannot be right;
# that is the point of the example, not a finding. No seed was picked.

# %%
import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from simi_mailbox import SimiMailbox, TemperatureScaling, metrics
from simi_mailbox.calibrators import Uncalibrated
from simi_mailbox.synthetic import copied_pages

accounts = copied_pages(classes=2, prior=(0.97, 0.03), seed=0)
y, graph, test = accounts.y, accounts.graph, accounts.test
truth = accounts.probs[:, 1]
print(f"{y.mean():.1%} fraud, {accounts.copied.mean():.0%} of the accounts in rings")

# %% [markdown]
# The model adds up what an account and its neighbours show, as graph convolutions do, and weighs
# the sum. It was trained on a sixth of the accounts; another sixth calibrates it.

# %%
model = LogisticRegression(max_iter=1000).fit(accounts.sums[accounts.train], y[accounts.train])
half = model.decision_function(accounts.sums) / 2
logits = np.stack([-half, half], axis=1)

methods = {
    "as it is": Uncalibrated(),
    "one temperature": TemperatureScaling(),
    "simi-mailbox": SimiMailbox(),
}
fraud = {
    name: cal.fit(logits, y, graph=graph, mask=accounts.val).predict_proba(logits, graph=graph)
    for name, cal in methods.items()
}
for name, probs in fraud.items():
    nll = metrics.nll(probs[test], y[test])
    ece = metrics.ece(probs[test], y[test])
    print(f"{name:16} NLL {nll:.4f}  ECE {ece:.1%}")

# %% [markdown]
# ## What it costs
#
# A fraud that slips through costs 10, an honest customer who is stopped costs 1. Whoever knows
# the probability p stops an account if 10 p > 1 − p, that is from p = 9 % on. The threshold is a
# matter of arithmetic, *if the probabilities are true*. The costs below are computed with the
# true probabilities of the test accounts: there is no luck of the draw in them.

# %%
MISSED, STOPPED = 10, 1
threshold = STOPPED / (MISSED + STOPPED)


def cost(p, nodes=test):
    """Expected cost per account of stopping everyone whose p exceeds the threshold."""
    stop, real = p[nodes] > threshold, truth[nodes]
    return float(np.where(stop, STOPPED * (1 - real), MISSED * real).mean())


best, nothing = cost(truth), cost(np.zeros(len(y)))
print(f"stop nobody {nothing:.3f}, know the truth {best:.3f}")
for name, probs in fraud.items():
    loss = cost(probs[:, 1])
    print(f"{name:16} {loss:.3f}: {loss / best - 1:.0%} more than who knows the truth")

# %% [markdown]
# ## Where they differ
#
# True probability of fraud against the one that is stated, in bins of as many accounts each.
# People and rings lie on different sides of the diagonal: no single temperature can bring both to
# it.

# %%
figure = Figure(figsize=(11, 3.6), layout="constrained")
for ax, (name, probs) in zip(figure.subplots(1, 3, sharey=True), fraud.items(), strict=True):
    ax.plot([0, 1], [0, 1], color="0.8")
    for ring, label in ((True, "rings"), (False, "people")):
        nodes = test[accounts.copied[test] == ring]
        order = nodes[np.argsort(probs[nodes, 1])]
        parts = np.array_split(order, 12)
        said, real = ([values[part].mean() for part in parts] for values in (probs[:, 1], truth))
        ax.plot(said, real, "o-", label=label)
    ax.axvline(threshold, color="0.8", linestyle=":")
    ax.set(title=name, xlabel="stated", xlim=(0, 1), ylim=(0, 1))
figure.axes[0].legend(loc="upper left", frameon=False)
label = figure.axes[0].set_ylabel("true probability of fraud")

# %% [markdown]
# With promises instead of costs (at most so many errors among those accepted, a set of classes
# that holds the truth), go on with [decide](../../decide.md).
