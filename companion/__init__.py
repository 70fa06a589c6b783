"""The companion: what makes the book of `recon` — experiments, claims, figures, results on disk, pages."""
