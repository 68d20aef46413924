"""The management API's use cases: list, create, read, update and delete for any kind, and what differs.

Here is what serves any kind; the rooms hold the kinds that differ, who may call, and changes of many at once.
"""
