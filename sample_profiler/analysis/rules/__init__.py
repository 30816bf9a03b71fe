"""The rules of a verdict, one module for each family of causes; `analysis.verdict` has their order."""
