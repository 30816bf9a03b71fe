"""Parts that reports, status and log have in common: tables, accounts, workers, the verdict."""
