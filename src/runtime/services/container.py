"""The container of the collaborators that services use, built once by `runtime.app.make_services`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from runtime.adapters.client_documents import ClientDocuments
from runtime.adapters.identity_providers.oidc import OpenIDProviders
from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.keys.sealing import Sealer, SecretHasher
from runtime.adapters.mail import Transport
from runtime.adapters.outbound import Outbound
from runtime.adapters.passwords import Passwords
from runtime.adapters.shared_fetch import SharedFetch
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.domain.kinds.user_agent import UserAgent
from runtime.services.data_keys import DataKeys
from runtime.services.decision_log import DecisionLog
from runtime.services.epochs import Epochs
from runtime.services.job_notifier import JobNotifier
from runtime.services.outbox import Outbox
from runtime.services.rate_limiter import RateLimiter
from runtime.services.replay_turns import ReplayTurns
from runtime.services.revocation_list import Revocations
from runtime.services.upstream_refreshes import UpstreamRefreshes
from runtime.services.zones import ZoneRegistry
from runtime.settings import Settings
from runtime.storage.sql.database import Database
from runtime.storage.sql.session_users import BrowserSessionReader
from runtime.storage.state import StateStore


@dataclass(frozen=True)
class Services:
    """Everything with a lifetime longer than a request.

    Attributes:
        browser_sessions: reads browser sessions by cookie, those of one moment together.
        key_encryption: the keys that wrap data keys.
        data_keys: the unwrapped data keys of zones in this process.
        cursors: seals paging cursors, for all workers alike.
        remote_keys: the JWK sets of clients and providers, remembered.
        client_documents: what clients publish about themselves, likewise.
        client_reads: clients whose documents are read and stored now, each for all requests that wait for it.
        openid: the identity providers outside, with what they publish remembered.
        upstream_outbound: the connections to providers of delegated access: theirs alone, so that one that is
            slow holds up no other fetch.
        upstream_oauth: those providers, with the health of each remembered.
        upstream_refreshes: refreshes of upstream tokens that are under way in this process.
        clock: the present, aware and UTC, the same for all nodes; tests bring their own.
        epochs: which cached knowledge is out of date, as every process tells the others.
        zones: what the zone endpoints know about zones, cached by epoch.
        decisions: the record of what the token endpoint decided, written behind the answers.
        jobs: `jobs.notify` tells the job runner that there is work for a job.
        rate_limiter: counts requests against the limits of `rate_limits`.
        mail: what carries messages to people.
        outbox: messages that wait to be delivered, kept until they have been.
        revocations: what this process knows of revocations, for those who poll.
        replay_turns: who of those that try out changes replays recorded decisions now.
    """

    settings: Settings
    database: Database
    browser_sessions: BrowserSessionReader
    state: StateStore
    key_encryption: KeyEncryption
    data_keys: DataKeys
    hasher: SecretHasher
    cursors: Sealer
    outbound: Outbound
    remote_keys: RemoteKeys
    openid: OpenIDProviders
    upstream_outbound: Outbound
    upstream_oauth: UpstreamOAuthClient
    upstream_refreshes: UpstreamRefreshes
    client_documents: ClientDocuments
    passwords: Passwords
    clock: Callable[[], datetime]
    epochs: Epochs
    zones: ZoneRegistry
    decisions: DecisionLog
    jobs: JobNotifier
    rate_limiter: RateLimiter
    revocations: Revocations
    mail: Transport
    outbox: Outbox
    client_reads: SharedFetch[UserAgent] = field(default_factory=lambda: SharedFetch(lifetime_seconds=0))
    replay_turns: ReplayTurns = field(default_factory=ReplayTurns)
