"""The outcome of tuning as text, and the table of searched parameters (tune.md 5, 7)."""

from collections.abc import Sequence

from reprieve.cli.sections import Row, Section, Tone
from reprieve.decisions.phrases import count
from reprieve.replay.tuning.objectives import Objective
from reprieve.replay.tuning.report import TODAY, TuningReport, amount_text, blocks_text, interval_text
from reprieve.replay.tuning.search_space import PARAMETERS, searched


def tuning_sections(report: TuningReport, objectives: Sequence[Objective]) -> list[Section]:
    """Return the configurations on the training and on the held-out blocks, and what the chosen one changes."""
    setting = report.setting
    indexes = range(len(objectives))
    rows, differences = [], []
    for item in report.configurations:
        chosen = item.name == report.chosen
        name = (item.name if not item.values else f"trial {item.name}") + (" (chosen)" if chosen else "")
        tone = Tone.GOOD if chosen else Tone.PLAIN
        amounts = [amount_text(objectives[at], item.training[at]) for at in indexes]
        rows.append(
            Row((name, *amounts, *(interval_text(objectives[at], item.held_out[at]) for at in indexes)), tone=tone)
        )
        if item.name != TODAY:
            against = (interval_text(objectives[at], item.against_today[at], signed=True) for at in indexes)
            differences.append(Row((name, *against), tone=tone))
    names = [objective.name for objective in objectives]
    notes = (
        f"{setting['trials']} configurations tried on {blocks_text(setting)}; "
        f"{setting['front']} on the front; judged on {count(setting['heldOutBlocks'], 'later block')}.",
        "In parentheses: 95 % intervals, by the bootstrap over blocks. GPU-hours and evictions are those of a block.",
    )
    return [
        Section(
            "Tuning",
            ("", *(f"{name}, training" for name in names), *(f"{name}, held out" for name in names)),
            tuple(rows),
            notes,
        ),
        Section("Held out, against today", ("", *names), tuple(differences)),
        _chosen(report),
    ]


def _chosen(report: TuningReport) -> Section:
    evaluation = report.named(report.chosen)
    if report.chosen == TODAY:
        note = "Nothing on the front is as good as today in both objectives on the training blocks."
        return Section("Chosen: today's configuration", notes=(note, "--choose TRIAL takes one of the front."))
    rows = tuple(Row((name, str(value))) for name, value in sorted(evaluation.values.items()))
    return Section(f"Chosen: trial {report.chosen}", ("", ""), rows)


def search_section() -> Section:
    """Return the table of searched parameters."""
    rows = tuple(
        Row(
            (
                parameter.name,
                "yes" if parameter in searched() else "",
                str(parameter.default),
                str(parameter.values),
                parameter.meaning,
            )
        )
        for parameter in PARAMETERS
    )
    return Section("Search", ("name", "searched", "default", "values", "meaning"), rows)
