"""Tools for whole stores: copy, comparison, archive and replay; and a check of the installation."""
