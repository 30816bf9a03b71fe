"""The family's environments under the names that Sample Factory's have, for programs that import those."""

from sf_examples.beside import path_with_others

__path__ = path_with_others(__path__, __name__)
