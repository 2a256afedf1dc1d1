"""``python -m rstar``: the command line."""

from rstar.cli.app import main

main()
