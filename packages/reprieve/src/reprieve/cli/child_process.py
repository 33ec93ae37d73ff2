"""`python -m reprieve.cli.child_process ARGUMENTS`: the command `reprieve`, ending when its standard input does.

For programs that start it and must not leave it behind (`live.supervisor`).
"""

from reprieve.live.supervisor import tie

if __name__ == "__main__":
    tie()
    from reprieve.cli.main import main

    main()
