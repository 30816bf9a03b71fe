"""Findings as text, JSON and TensorBoard: functions and writers that make documents, and print nothing."""
