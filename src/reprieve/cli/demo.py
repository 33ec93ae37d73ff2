"""`reprieve demo`: the worked example."""

import typer

from reprieve.cli.outcome import Exit, note, show
from reprieve.cli.sections import Section


def command() -> None:
    """Run a worked example: a gang gets its room in a full cluster, another cannot fit and nobody is touched.

    Ends by itself; exit code 0 only if what must happen happened.
    """
    from reprieve.cli.options import read_options, read_size
    from reprieve.cli.plan import DEFAULT_MAX_BYTES, answer_for
    from reprieve.cli.render import plan_sections
    from reprieve.cli.terminal import show_sections
    from reprieve.simulation.demo import ACTS, DIRECTORY, check

    limit = read_size("--max-input-bytes", DEFAULT_MAX_BYTES)
    as_expected = True
    for number, act in enumerate(ACTS):
        files = [str(DIRECTORY / file) for file in act.files]
        answer = answer_for(files, read_options(), limit)
        opening = Section(act.title, notes=act.story)
        closing = Section("What this shows", notes=act.lesson)
        if number:
            show("\n")
        show_sections([opening, *plan_sections(answer), closing])
        for difference in check(act, answer):
            as_expected = False
            note(f"unexpected: {act.title}: {difference}")
    again = (f"reprieve plan -f {' -f '.join(act.files)}" for act in ACTS)
    show("\n")
    show_sections([Section("Try it yourself", notes=(*again, f"in {DIRECTORY}"))])
    raise typer.Exit(Exit.DONE if as_expected else Exit.NOT_SO)
