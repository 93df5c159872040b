"""Figure 19: the ranking algorithms, DNF and CNF, which return the best five.

Usage: python -m experiments.vldb09.figure19 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import RANKED, measure_ranking
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Form, Workload

MONTHS = (12, 4, 1)
CNF_SHARE = 0.4
"""The paper ranks a million DNFs and 0.4 million CNFs."""
FORMS: tuple[tuple[Form, float], ...] = (("dnf", 1.0), ("cnf", CNF_SHARE))
"""The forms of rules, each with its share of the number of rules in the settings."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for months in MONTHS:
        for form, share in FORMS:
            rows += measure_form(form, round(share * settings.rules), months, settings)

    def time_saved(engine: str, form: str) -> list[float]:
        """The share of the time that ranking saves, at each place along the axis."""
        own = [row for row in rows if row["engine"] == engine and row["form"] == form]
        pairs = zip(own[::2], own[1::2], strict=True)
        return [1 - ranked["ms"] / plain["ms"] for plain, ranked in pairs]

    dnf, cnf = time_saved("kindex", "dnf"), time_saved("kindex-cnf", "cnf")
    return Figure(
        "figure19",
        f"Figure 19: ranking, {settings.rules:,} DNFs, {CNF_SHARE * settings.rules:,.0f} CNFs",
        "matches",
        "rules that match an event, %",
        rows,
        [
            Claim("DNF ranking, time saved at the fewest matches", "-19 %", f"{dnf[0]:.0%}"),
            Claim("DNF ranking, time saved at the most matches", "11 %", f"{dnf[-1]:.0%}"),
            Claim("CNF ranking, time saved", "35 to 45 %", f"{min(cnf):.0%} to {max(cnf):.0%}"),
        ],
        scale=100,
        panels="form",
        batch=1,
    )


def measure_form(form: Form, size: int, months: int, settings: Settings) -> list[Row]:
    workload = Workload(size, form=form, months=months)
    about = {"form": form, "months": months, "rules": size}
    return [about | row for row in measure_ranking(workload, RANKED[form], settings)]


if __name__ == "__main__":
    run(make, PAPER)
