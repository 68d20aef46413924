"""The whole product once, on this machine: run it with `make demo`, or `make demo KEEP=1` to go on by hand.

Each step asks the running programs and checks what they answer; the story is told from the answers, so it can
only be read to the end when everything in it happened.
"""

import difflib
import os
import secrets
import shutil
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path

from acme import CONFIG, Application, Browser, Page, Server, Unexpected, written_secret
from connected_account import ConnectedAccount
from story import chapter, out, outcome_of, require, say, show, show_token, summary_of
from tool_server import ToolServer

PERSON = "ada@acme.example"
AGENT_CALLBACK = "http://localhost:8600/callback"
TOOLS = "https://tools.acme.example/mcp"
CALENDAR = "https://calendar.acme.example/api"
PAYROLL = "https://payroll.acme.example/api"
RULE = "product/policies/payroll-not-for-contractors.cedar"
# What the change in the last step makes of that rule: contractors may still see their own payslips.
CHANGED_RULE = """\
// Whoever asks for them, and however long the chain: a contractor's authority does not reach payroll,
// except to read payslips.
@id("payroll-not-for-contractors")
forbid (
  principal in Group::"contractors",
  action == Action::"exchange",
  resource == Resource::"https://payroll.acme.example/api"
)
unless { context.scopes == ["payslips.read"] };
"""


class Demo:
    """The story's state: the server, the person's password, and what the steps hand on to each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server = Server(directory / "data")
        self.secrets = directory / "secrets"
        self.password = secrets.token_urlsafe(12)
        self.browser = Browser()
        self.agent_token = ""
        self.issuer = ""

    def start(self) -> None:
        """A service on its embedded default."""
        chapter(1, "A service, from nothing")
        self.server.init()
        self.server.start()
        (self.directory / "api-key").write_text(self.server.api_key)
        say("zoned init     made a database (SQLite), keys, an organization and an API key")
        say(f"zoned serve    answers at {self.server.url}")

    def apply(self) -> None:
        """Plan, apply, plan again."""
        chapter(2, "The configuration in examples/config, planned and applied")
        planned = self.server.zonectl("plan", str(CONFIG), expect=(2,))
        show(summary_of(planned.stdout))
        applied = self.server.zonectl("apply", str(CONFIG), "--yes", "--secrets-dir", str(self.secrets))
        show(outcome_of(applied.stdout))
        again = self.server.zonectl("plan", str(CONFIG), expect=(0,))
        say("planned again:")
        show(summary_of(again.stdout))
        self.issuer = self.server.zone("acme-product")["protocols"]["oauth2"]["issuer"]

    def sign_in(self) -> None:
        """One person, through both zones, as a browser would."""
        chapter(3, f"{PERSON} signs in, through both zones")
        self.server.run(
            "user",
            "add",
            "--zone",
            "acme-workforce",
            "--email",
            PERSON,
            "--password-stdin",
            stdin=self.password,
        )
        say("zoned user add   gave her a password in the zone acme-workforce")
        browser = self.browser
        tokens = self.agent.sign_in(
            browser, AGENT_CALLBACK, self._answer, scope="openid email", resources=[TOOLS, PAYROLL]
        )
        names = {self.server.zone(slug)["protocols"]["oauth2"]["issuer"]: slug for slug in _ZONES}
        for step in browser.visited:
            for issuer, slug in names.items():
                step = step.replace(issuer, slug)
            say(f"  {step}")
        self.agent_token = tokens["access_token"]
        say("and the calendar agent has its code redeemed:")
        show_token(self.agent_token, "iss", "sub", "aud", "client_id", "scope")

    def chain(self) -> None:
        """The agent's exchange, the tool server's further exchange, and the one that policy refuses."""
        chapter(4, "The agent acts for her, and the tool server for the agent")
        say(f"calendar-agent exchanges its token for one for {TOOLS}")
        tool_token = self._granted(self.agent, self.agent_token, TOOLS)
        first = show_token(tool_token, "sub", "aud", "client_id", "scope", "act")
        called = self.tool_server.verified(tool_token)
        say("calendar-tools, which got that token with a call, verifies it with the library zonewright:")
        say(f"    {called.actors[0].subject} calls, for {called.subject}")
        say(f"then it exchanges it for {CALENDAR}")
        api_token = self._granted(self.tools, tool_token, CALENDAR, "events.read")
        second = show_token(api_token, "sub", "aud", "client_id", "scope", "act")
        require(first["sub"] == second["sub"], "the person changed along the chain")
        require(second["act"]["act"]["sub"] == "calendar-agent", "the chain does not name the agent")
        say("the calendar API sees who it is for and everyone in between")
        refusal = self._refused(self.agent, CALENDAR, "events.read")
        say(f"calendar-agent tries the calendar API itself: {refusal}")

    def forbidden(self) -> None:
        """The resource that a policy keeps from a group."""
        chapter(5, "Payroll, which the rules keep from contractors")
        say("she is in the group contractors, and agreed that the agent may ask for her payslips")
        say(f"calendar-agent asks for {PAYROLL}: {self._refused(self.agent, PAYROLL, 'payslips.read')}")

    def change(self) -> None:
        """A reviewed change of one policy, and the same request again."""
        chapter(6, "The rule is changed, in a copy of the configuration")
        copy = self.directory / "config"
        shutil.copytree(CONFIG, copy)
        before = (copy / RULE).read_text("utf-8")
        (copy / RULE).write_text(CHANGED_RULE, "utf-8")
        difference = difflib.unified_diff(before.splitlines(), CHANGED_RULE.splitlines(), n=0, lineterm="")
        show("\n".join(line for line in list(difference)[2:] if not line.startswith("@@")))
        planned = self.server.zonectl("plan", str(copy), expect=(2,))
        show(summary_of(planned.stdout))
        applied = self.server.zonectl("apply", str(copy), "--yes")
        show(outcome_of(applied.stdout))
        say("the same request as in 5, with the same token:")
        payslips = self._granted(self.agent, self.agent_token, PAYROLL, "payslips.read")
        show_token(payslips, "sub", "aud", "client_id", "scope", "act")
        refusal = self._refused(self.agent, PAYROLL, "salaries.read")
        say(f"and salaries.read, which the rule still forbids: {refusal}")

    def connect(self) -> None:
        """The second act: a user connects an account at another company, and takes it back."""
        tool_token = self._granted(self.agent, self.agent_token, TOOLS)
        second = ConnectedAccount(
            self.server, self.directory / "config", self.issuer, self.browser, self.tool_server
        )
        try:
            second.configure()
            second.connect(self.tools, tool_token)
            second.refresh(self.tools, tool_token)
            second.revoke(self.agent, self.agent_token, self.tools, tool_token)
        finally:
            second.close()
            self.tool_server.close()

    def keep(self) -> None:
        """What somebody needs to go on by hand."""
        out.print("\n[bold]The server is still running.[/bold]")
        process = self.server.process
        require(process is not None, "the server was never started")
        signing_in = "python examples/client.py sign-in"
        for line in (
            f"export ZONECTL_SERVER={self.server.url}",
            f"export ZONECTL_API_KEY=$(cat {self.directory / 'api-key'})",
            f"export SECRETS={self.secrets}",
            ".venv/bin/zonectl plan examples/config     # would take the changed rule back",
            f"echo {self.password} | .venv/bin/{signing_in} --as {PERSON} --password-stdin",
            "docs/guide.md, step 4, goes on from that token. To stop and clean up:",
            f"kill {process.pid}; rm -rf {self.directory}",  # type: ignore[union-attr]
        ):
            out.print(f"   {line}", markup=False)

    @cached_property
    def tool_server(self) -> ToolServer:
        """What verifies the calls of the tool server's tools: it knows the zone and itself, and no secret."""
        return ToolServer(self.issuer, TOOLS)

    @property
    def agent(self) -> Application:
        """The calendar agent, with the secret that the apply wrote."""
        return Application(
            self.issuer, "calendar-agent", written_secret(self.secrets, "product", "calendar-agent")
        )

    @property
    def tools(self) -> Application:
        """The tool server, with the secret that the apply wrote."""
        return Application(
            self.issuer, "calendar-tools", written_secret(self.secrets, "product", "calendar-tools")
        )

    def _answer(self, browser: Browser, page: Page, until: str) -> Page | str:
        """What she does with a page: type her password, or agree."""
        fields = page.forms[0]["fields"] if page.forms else {}
        if "password" in fields:
            browser.visited.append("     she types her password")
            return browser.submit(page, {"email": PERSON, "password": self.password}, until=until)
        browser.visited.append("     she reads what the agent wants to do, and agrees")
        return browser.submit(page, {}, button="allow", until=until)

    def _granted(self, who: Application, subject: str, resource: str, scope: str | None = None) -> str:
        answer = who.exchange(subject, resource, scope)
        require(
            answer.status_code == 200, f"{who.client_id} for {resource}: {answer.status_code} {answer.text}"
        )
        token: str = answer.json()["access_token"]
        return token

    def _refused(self, who: Application, resource: str, scope: str) -> str:
        answer = who.exchange(self.agent_token, resource, scope)
        require(answer.status_code == 400, f"{resource} was not refused: {answer.status_code}")
        body = answer.json()
        return f"refused, {body['error']}" + (f" ({body['reason']})" if "reason" in body else "")


_ZONES = ("acme-workforce", "acme-product")


def main() -> int:
    """Tell the story. 0 when all of it came true."""
    keep = bool(os.environ.get("KEEP"))
    directory = Path(tempfile.mkdtemp(prefix="zonewright-demo-"))
    demo, started, completed = Demo(directory), time.monotonic(), False
    try:
        demo.start()
        demo.apply()
        demo.sign_in()
        demo.chain()
        demo.forbidden()
        demo.change()
        demo.connect()
        out.print(f"\n[bold]All of it happened, in {time.monotonic() - started:.0f} s.[/bold]")
        completed = True
        if keep:
            demo.keep()
    except Unexpected as failure:
        out.print(f"\nThe story stops here: {failure}", style="red", markup=False)
        return 1
    finally:
        demo.browser.close()
        if not (keep and completed):
            demo.server.stop()
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
