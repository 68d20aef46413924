"""Messages in the outbox leave at once, by the job that the request notifies."""

from pathlib import Path

import httpx
from tests.support.mail import in_folder
from tests.support.rewired import run_job
from tests.support.server import serve
from tests.support.waiting import wait_until


def test_mail_does_not_wait_for_the_jobs_period(tmp_path: Path):
    """Within seconds of the answer, though the job comes round only every half minute."""
    with serve(tmp_path, jobs=True) as server:
        server.call(lambda services: run_job(services, "outbox"))
        body = {"email": "ada@acme.example", "role": "org_viewer"}
        path = f"{server.url}/organizations/{server.organization_id}/invitations"
        assert httpx.post(path, json=body, headers=server.headers).status_code == 201

        wait_until(lambda: in_folder(server.settings.mail_folder), otherwise=lambda: "no mail")
