"""The maximum number of entries of each cache of a process: the source of docs/limits.md."""

# Of the process.
ZONES = 1_000
POLICY_SETS = 1_000
REVOCATION_LISTS = 1_000
RATE_LIMIT_COUNTS = 20_000  # of one limit
BLOCKED_CLIENTS = 20_000
CREDENTIALS_IN_USE = 20_000

# Of each zone. What there is one of for each application, policy or provider:
CLIENTS = 2_000
WORKLOADS = 2_000
APPLICATIONS = 2_000
RESOURCES_BY_APPLICATION = 2_000
PROVIDERS = 2_000
SHARED_CREDENTIALS = 2_000
WITHDRAWALS = 2_000
POLICY_READS = 2_000
POLICY_PARTIES = 2_000
# What there is one of for each user, session, token or resource:
RESOURCES = 20_000
USERS = 20_000
SESSIONS = 20_000
VERIFIED_TOKENS = 20_000
POLICY_DECISIONS = 20_000
CONSENTS = 20_000
ALLOWED_TARGETS = 20_000
OPENED_TOKENS = 5_000  # a kilobyte or two each
KNOWN_EXCHANGES = 5_000  # with a token each
