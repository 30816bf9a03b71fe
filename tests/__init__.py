"""Tests of the package; a package itself, since one of its requirements installs another one of this name."""
