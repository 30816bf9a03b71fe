"""ViZDoom: 3D scenarios of the game Doom, seen as pixels."""
