MOST_WIDTH: int
ROWS: int
WIDTH: int

def backward(
    gradient: int,
    of_rows: int,
    layers: int,
    parts: int,
    values: int,
    num_rows: int,
    num_layers: int,
    most_lanes: int,
    /,
) -> None: ...
def forward(
    rows: int, layers: int, parts: int, values: int, num_rows: int, num_layers: int, most_lanes: int, /
) -> None: ...
def fused_mlp(
    rows: int, layers: int, result: int, num_rows: int, num_layers: int, num_results: int, most_lanes: int, /
) -> None: ...
