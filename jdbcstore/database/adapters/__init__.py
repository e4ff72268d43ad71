"""Vendor adapters: one module for each vendor that the tests run or compile."""
