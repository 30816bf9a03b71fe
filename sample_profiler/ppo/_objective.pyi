def objective(
    kind: int,
    arrays: tuple[int, ...],
    gradients: tuple[int, int, int],
    num_rows: int,
    num_parameters: int,
    options: tuple[float, ...],
    /,
) -> float: ...
