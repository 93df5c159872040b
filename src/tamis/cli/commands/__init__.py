"""The commands of ``tamis``, one file each; :mod:`tamis.cli.app` puts them together."""
