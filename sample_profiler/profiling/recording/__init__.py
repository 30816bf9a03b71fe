"""The record file of this process: what goes into it, and when."""
