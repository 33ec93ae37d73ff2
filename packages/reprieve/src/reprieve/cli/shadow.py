"""`reprieve shadow report`: where another scheduler's decisions and those of a shadow differ."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, note, refuse, show

if TYPE_CHECKING:
    from reprieve.decisions.shadow import ShadowReport

DEFAULT_SOURCE = "http://127.0.0.1:10259"


class Output(StrEnum):
    """The output formats."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"


def command(
    source: Annotated[
        str, typer.Option("--from", metavar="URL|FILE", help="The endpoint of the shadow, or the file of its report.")
    ] = DEFAULT_SOURCE,
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with a bearer token for the endpoint.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format; html is one file.")] = Output.TEXT,
    fail_on_difference: Annotated[
        bool, typer.Option("--fail-on-difference", help="Exit with code 1 if there is a difference.")
    ] = False,
) -> None:
    """Show where the acting scheduler and the shadow decided differently.

    Lists gangs that are half placed or starved, evictions of more or of fewer pods, GPU-hours lost, and waiting times.
    """
    report = _read(source, token_file)
    if output is Output.HTML:
        from reprieve.page.html import as_file
        from reprieve.page.shadow_view import shadow_page

        show(as_file(shadow_page(report)))
    elif output is Output.TEXT:
        from reprieve.cli.shadow_text import report_sections
        from reprieve.cli.terminal import show_sections

        show_sections(report_sections(report))
    else:
        from reprieve.cli.documents import Format, document

        show(document(report, Format(output.value)))
    if report.left_out:
        note(f"{report.left_out} older differences are counted, and not listed")
    if fail_on_difference and any(report.counts.values()):
        raise typer.Exit(Exit.NOT_SO)


def _read(source: str, token_file: str | None) -> "ShadowReport":
    """Return the report of an endpoint or a file.

    Bad input ends the command with exit code 2; an endpoint that does not answer, with 3.
    """
    import asyncio
    from pathlib import Path

    import msgspec

    from reprieve.cli.scheduler import read_token
    from reprieve.client.errors import ClientError, ConfigError
    from reprieve.decisions.shadow import decode_report

    token = read_token(token_file, "--token-file")
    try:
        body = asyncio.run(_ask(source, token)) if "://" in source else Path(source).read_bytes()
        return decode_report(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        refuse(f"{source}: not a shadow report: {error}")
    except OSError as error:
        refuse(f"{source}: {error.strerror or error}: start a shadow with --shadow-report FILE, or name its endpoint")
    except ConfigError as error:
        refuse(str(error))
    except ClientError as error:
        text = f"{error}: is a scheduler with --shadow running there? (set another place with --from URL|FILE)"
        raise CommandError(text, Exit.UNREACHABLE) from None


async def _ask(url: str, token: str | None) -> bytes:
    """Get the report of a shadow. Raises ClientError."""
    from yarl import URL

    from reprieve.client.connection import Connection, Identity, TlsSettings
    from reprieve.client.errors import ConfigError
    from reprieve.client.transport import ApiClient, Limits

    try:
        parsed = URL(url)
        host = parsed.host
    except ValueError:
        raise ConfigError(f"--from {url}: not a URL") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise ConfigError(f"--from {url}: expected http://HOST:PORT, https://HOST:PORT or a file")
    if token is not None and parsed.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(f"--from {url}: a token is only sent over https, or to this machine")
    identity = Identity(token=token) if token is not None else Identity()
    connection = Connection(server=url.rstrip("/"), source="--from", tls=TlsSettings(), identity=identity)
    async with ApiClient(connection, limits=Limits(attempts=2, deadline=5.0, connect=3.0, qps=0.0)) as client:
        return (await client.get("/shadow")).body
