"""The attack: a campaign that tries to make Tamis answer wrongly, lose a change, or fail.

``make attack SECONDS=600 SEED=1`` runs every part in turn, and ``PART=differential`` only one. The
same seed repeats a run. Each failure is reduced to a small case in ``attack/cases``, which
``make test`` replays from then on. docs/reference/guarantees.md has the table of the long run.
"""
