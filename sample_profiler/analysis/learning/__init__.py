"""Why a run may not learn: a second verdict, from what its Learners measure of their data and their steps."""
