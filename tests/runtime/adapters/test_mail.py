"""Mail: what a message looks like, and how it leaves, through a real mail server and as a file."""

import stat
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import self_signed, serving, trusting
from tests.support.mail import PASSWORD, USERNAME, in_folder, read, running_mail_server

from runtime.adapters.mail import FileTransport, MailFailed, MailRefused, SmtpTransport, compose, sender_of
from runtime.app import UnsafeSettings, check, mail_transport_of
from runtime.settings import Settings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SENDER = "Zonewright <no-reply@zones.example>"


def message(to: str = "ada@acme.example", subject: str = "Come in", text: str = "Hello\n") -> EmailMessage:
    return compose(sender=SENDER, recipient=to, subject=subject, text=text, reference="letter-1", now=NOW)


def test_a_message_is_plain_and_says_that_a_machine_wrote_it():
    """One recipient, a date, an id that a second delivery shares, and no out-of-office answers."""
    sent = read(bytes(message(subject="Grüße", text="Zoë\nbye")))

    assert {name: sent[name] for name in ("From", "To", "Subject", "Message-ID", "Auto-Submitted")} == {
        "From": SENDER,
        "To": "ada@acme.example",
        "Subject": "Grüße",
        "Message-ID": "<letter-1@zones.example>",
        "Auto-Submitted": "auto-generated",
    }
    assert sent["Date"].datetime == NOW
    assert sent.get_content().splitlines() == ["Zoë", "bye"]


@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ("ada@acme.example\r\nBcc: eve@evil.example", "Come in"),
        ("ada@acme.example", "Come in\r\nBcc: eve@evil.example"),
        ("ada@acme.example", "Come in\nBcc: eve@evil.example"),
        ("ada", "Come in"),
        ("@acme.example", "Come in"),
        ("ada@acme.example,root", "Come in"),
        ("ada@acme.example;root", "Come in"),
        ("ada@acme.example:25", "Come in"),
        ("ada@[127.0.0.1]", "Come in"),
    ],
)
def test_no_value_adds_a_header(to: str, subject: str):
    """What would begin another header line, or another recipient, is refused."""
    assert message().keys().count("To") == 1
    with pytest.raises(MailRefused):
        message(to, subject)


def test_an_odd_local_part_stays_one_address():
    """Commas and spaces in an address name nobody else."""
    sent = message("eve@evil.example, ada@acme.example".replace("@evil.example", ""))

    assert [one.addr_spec for one in sent["To"].addresses] == ['"eve, ada"@acme.example']


@pytest.mark.parametrize("written", ["", "nobody", "a@b.example, c@d.example", "x\r\nBcc: a@b.example"])
def test_a_sender_is_exactly_one_address(written: str):
    assert sender_of(SENDER) == SENDER
    with pytest.raises(ValueError, match=r"."):
        sender_of(written)


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
async def test_a_mail_server_is_handed_the_message(tmp_path: Path, security: Any):
    """With each protection; a certificate of somebody else, or a wrong password, and nothing is sent."""
    certificate = self_signed(tmp_path / "mail.pem", "localhost")
    protected = security != "none"
    login: dict[str, Any] = {"username": USERNAME, "password": PASSWORD} if protected else {}
    async with running_mail_server(
        context=serving(certificate) if protected else None,
        starttls=security == "starttls",
        authenticated=security == "starttls",
    ) as server:
        where: dict[str, Any] = {"port": server.port, "security": security}
        trusted = trusting(certificate)
        if security == "tls":
            login = {}

        await SmtpTransport("localhost", **where, **login, context=trusted).send(message())
        assert server.envelopes[0].rcpt_tos == ["ada@acme.example"]
        assert server.last()["Subject"] == "Come in"

        if protected:
            with pytest.raises(MailFailed):
                await SmtpTransport("localhost", **where, **login).send(message())
        if login:
            wrong = {**login, "password": "guess"}
            with pytest.raises(MailFailed, match="535"):
                await SmtpTransport("localhost", **where, **wrong, context=trusted).send(message())
        assert len(server.envelopes) == 1


async def test_refusals_are_for_now_or_for_good():
    """A 4yz may pass, a 5yz will not; a server that is away may come back; no STARTTLS, nothing sent."""
    async with running_mail_server() as server:
        plain = SmtpTransport("localhost", port=server.port, security="none")
        await plain.send(message())
        with pytest.raises(MailFailed, match="452"):
            await plain.send(message("full@acme.example"))
        with pytest.raises(MailRefused, match="550"):
            await plain.send(message("gone@acme.example"))
        with pytest.raises(MailFailed):
            await SmtpTransport("localhost", port=server.port).send(message())
        assert len(server.envelopes) == 1
    with pytest.raises(MailFailed):
        await plain.send(message())


async def test_files_are_the_owners_alone(tmp_path: Path):
    """Each message is a file of its own that nobody else on the machine can read."""
    folder = tmp_path / "mail"
    for subject in ("first", "second"):
        await FileTransport(folder).send(message(subject=subject))

    assert [sent["Subject"] for sent in in_folder(folder)] == ["first", "second"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    (tmp_path / "taken").write_text("")
    with pytest.raises(MailFailed):
        await FileTransport(tmp_path / "taken").send(message())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"mail_from": "nobody"}, "ZONED_MAIL_FROM"),
        ({"mail_from": "zonewright@localhost"}, "ZONED_MAIL_FROM"),
        ({"mail_smtp_host": None}, "ZONED_MAIL_SMTP_HOST"),
        ({"mail_smtp_security": "none"}, "ZONED_MAIL_SMTP_SECURITY"),
    ],
)
def test_settings_that_send_no_mail_are_refused(wrong: dict[str, Any], told: str):
    """So is a password that would travel in clear text."""
    right = {
        "mail_transport": "smtp",
        "mail_smtp_host": "mail.example",
        "mail_from": SENDER,
        "mail_smtp_username": "zones",
        "mail_smtp_password": "letter-carrier",
    }
    settings = Settings.load(None, **right)
    check(settings)
    assert "letter-carrier" not in repr(settings) + repr(mail_transport_of(settings))
    with pytest.raises(UnsafeSettings, match=told):
        check(Settings.load(None, **{**right, **wrong}))
