"""`python -m reprieve`."""

from reprieve.cli.main import main

if __name__ == "__main__":
    main()
