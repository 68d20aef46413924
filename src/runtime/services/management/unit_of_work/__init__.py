"""A unit of work: one transaction of management writes, and what has to happen before and after its commit.

`transaction` puts the parts together: the lock on the organization with its revision (`organization_lock`),
the audit log (`audit_writer`), tombstones of deleted objects (`tombstones`), epochs of cached data
(`epoch_updates`), and what was looked up already (`lookup_cache`).
"""

from runtime.services.management.unit_of_work.transaction import (
    UnitOfWork,
    audit_values,
    dry_run_unit,
    nested,
    read_only,
    unit_of_work,
)

__all__ = ["UnitOfWork", "audit_values", "dry_run_unit", "nested", "read_only", "unit_of_work"]
