"""What `make_api_docs.py` is made of: definitions found in sources, and their docstrings as Markdown."""
