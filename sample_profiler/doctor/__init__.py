"""An environment alone, examined in a process of its own: what is wrong with it, what it costs, what it waits for."""
