def activate(values: int, count: int, is_bfloat16: bool, activation: int, /) -> None: ...
def draw(
    logits: int, waiting_times: int, actions: int, log_probabilities: int, num_rows: int, num_actions: int, /
) -> None: ...
def draw_normal(
    parameters: int,
    noise: int,
    actions: int,
    log_probabilities: int,
    num_rows: int,
    num_entries: int,
    lowest: float,
    highest: float,
    /,
) -> None: ...
def interleave(
    planes: int, pixels: int, num_images: int, num_channels: int, num_pixels: int, is_bfloat16: bool, /
) -> None: ...
def scale(
    values: int, factor: int, offset: int, result: int, num_rows: int, row_size: int, limit: float, item_size: int, /
) -> None: ...
def scale_to_pixels(
    bytes: int,
    factor: int,
    offset: int,
    pixels: int,
    num_images: int,
    num_channels: int,
    num_pixels: int,
    limit: float,
    is_bfloat16: bool,
    /,
) -> None: ...
def sum_bytes(bytes: int, sums: int, squares: int, num_rows: int, row_size: int, /) -> None: ...
