"""The command line: one file for each verb, imported without the packages that do the work."""

__all__: list[str] = []
