"""`python -m flashgen` is the `flashgen` command."""

from flashgen.cli.main import main

if __name__ == "__main__":
    main(prog_name="flashgen")
