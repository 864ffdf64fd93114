"""`python -m truecal` is the `truecal` command."""

from truecal.cli import main

if __name__ == "__main__":
    main()
