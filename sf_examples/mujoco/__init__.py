"""MuJoCo: gymnasium's continuous control environments."""

from sf_examples.beside import path_with_others

__path__ = path_with_others(__path__, __name__)
