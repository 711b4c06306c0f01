"""What calibrators are made of, and not calibrators themselves.

One file per method stands a folder above; here is what several of them share, or what one needs
beside its class: the training loop with its optimiser (`training`) and losses (`likelihood`),
confidences of the predicted class (`top_label`), features and class prototypes (`features`), and
the networks of GATS (`gats_attention`) and GETS (`gets_experts`). Methods import from here, never
the other way round.
"""
