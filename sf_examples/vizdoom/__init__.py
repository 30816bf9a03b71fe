"""ViZDoom: 3D scenarios of the game Doom, seen as pixels."""

from sf_examples.beside import path_with_others

__path__ = path_with_others(__path__, __name__)
