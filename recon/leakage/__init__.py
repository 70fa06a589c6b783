"""The other threat model: what one gradient gives away (Chen & Campbell 2022)."""
