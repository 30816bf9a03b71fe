"""What a process shares with code and programs that are not ours: outputs, settings, folders."""
