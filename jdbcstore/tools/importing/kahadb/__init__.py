"""The files of ActiveMQ's KahaDB, also of several in a tree (mKahaDB), and of its job scheduler."""
