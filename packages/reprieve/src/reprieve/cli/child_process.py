"""`python -m reprieve.cli.child_process ARGUMENTS`: run `reprieve` until its standard input ends.

For programs that start it and must not leave it running (`live.supervisor`).
"""

from reprieve.live.supervisor import tie

if __name__ == "__main__":
    tie()
    from reprieve.cli.main import main

    main()
