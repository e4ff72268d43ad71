"""The journal: records in files, and what crashes and damage leave of them."""
