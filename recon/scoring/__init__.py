"""Truth enters here: metrics, matching, nulls, evidence."""
