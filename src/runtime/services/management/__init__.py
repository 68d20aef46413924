"""The use cases of the management API: generic ones for every kind, and those of kinds that differ.

Here is what serves any kind; the packages hold the kinds that differ, who may call, and changes of many at
once.
"""
