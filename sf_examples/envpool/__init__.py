"""EnvPool: vectors of environments in C++, which threads of their own step."""
