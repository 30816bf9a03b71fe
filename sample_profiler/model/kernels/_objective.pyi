def objective(
    is_continuous: bool,
    arrays: tuple[int, ...],
    gradients: tuple[int, int, int],
    num_rows: int,
    num_parameters: int,
    options: tuple[float, ...],
    /,
) -> float: ...
