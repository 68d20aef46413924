"""mod_auth_openidc in an Apache of its own, with one page that shows what the module knows."""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
from program import HOST, converse, settings

MODULES = Path("/usr/lib/apache2/modules")
# Started as root, it serves as an account that owns nothing.
CONFIGURATION = """\
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/pid
ErrorLog /dev/stderr
Listen 127.0.0.1:{port}
ServerName {host}
User #65534
Group #65534
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule include_module {modules}/mod_include.so
LoadModule auth_openidc_module {modules}/mod_auth_openidc.so
DocumentRoot {folder}/pages
OIDCXForwardedHeaders X-Forwarded-Proto
{settings}
<Location />
    AuthType openid-connect
    Require valid-user
    Options +Includes
    SetOutputFilter INCLUDES
</Location>
"""
PAGE = """\
{"user": "<!--#echo encoding="none" var="REMOTE_USER" -->",
"email": "<!--#echo encoding="none" var="OIDC_CLAIM_email" -->",
"access_token": "<!--#echo encoding="none" var="OIDC_access_token" -->"}
"""


@contextmanager
def serving(directives: dict[str, str]) -> Iterator[str]:
    """An Apache with these settings; its address."""
    folder = Path(tempfile.mkdtemp(prefix="apache-"))
    folder.chmod(0o755)
    (folder / "pages").mkdir()
    (folder / "pages" / "index").write_text(PAGE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = "\n".join(f'{name} "{value}"' for name, value in directives.items())
    file = folder / "apache.conf"
    file.write_text(
        CONFIGURATION.format(folder=folder, port=port, host=HOST, modules=MODULES, settings=lines)
    )
    process = subprocess.Popen(["apache2", "-f", str(file), "-DFOREGROUND"], stdout=sys.stderr)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


# Until Apache listens, connections are tried again.
with serving(settings()) as apache, httpx.Client(transport=httpx.HTTPTransport(retries=5)) as http:

    def get(path: str) -> httpx.Response:
        """What the user's browser is answered, which keeps cookies for https."""
        cookies = "; ".join(f"{name}={value}" for name, value in kept.items())
        headers = {"Host": HOST, "X-Forwarded-Proto": "https", "Cookie": cookies}
        answer = http.get(apache + path, headers=headers)
        kept.update(answer.cookies)
        http.cookies.clear()
        return answer

    kept: dict[str, str] = {}

    def begin() -> str:
        return get("/index").headers["location"]

    def finish(address: str) -> dict:
        parts = urlsplit(address)
        answer = get(f"{parts.path}?{parts.query}")
        assert answer.headers["location"] == f"https://{HOST}/index", answer.text
        return get("/index").json()

    def sign_out(address: str) -> dict:
        answer = get(f"/callback?{urlencode({'logout': address})}")
        return {"url": answer.headers["location"], "status": get("/index").status_code}

    converse(begin, finish, sign_out)
