"""`reprieve records migrate`: change the version of the schema of a records database (history.md 2)."""

from typing import Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, note, refuse, show


def command(
    records: Annotated[
        str, typer.Option(metavar="FILE|URL", help="The file, or the database: postgresql://HOST/DATABASE.")
    ],
    to: Annotated[
        int | None, typer.Option(metavar="VERSION", help="The version of the schema. Default: the newest.")
    ] = None,
) -> None:
    """Bring the schema of a file or database of decision records to a version, older or newer.

    A scheduler upgrades to the newest version at its start. Version 0 deletes all records.
    """
    from reprieve.observability.database import migrations
    from reprieve.observability.database.files import writing_engine
    from reprieve.observability.database.location import RecordsAwayError, RecordsError, address_of, shown
    from reprieve.observability.database.store import in_database

    address = address_of(records)
    wanted = migrations.NEWEST if to is None else to
    try:
        engine = writing_engine(address, note)
        try:
            before = in_database(engine, lambda connection: migrations.move(connection, wanted))
        finally:
            engine.dispose()
    except RecordsError as error:
        refuse(f"--records: {error}")
    except RecordsAwayError as error:
        raise CommandError(f"{shown(address)}: {error}", Exit.UNREACHABLE) from None
    same = f"The schema is already at version {before}.\n"
    show(same if before == wanted else f"The schema was version {before} and is version {wanted} now.\n")
