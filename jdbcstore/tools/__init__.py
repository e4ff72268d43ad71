"""Work on whole stores: copy, compare, archive, replay, and a check of the installation."""
