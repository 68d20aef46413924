"""Authlib in a Flask application."""

from urllib.parse import urlsplit

from authlib.integrations.flask_client import OAuth
from flask import Flask
from program import HOST, converse, settings

app = Flask(__name__)
app.secret_key = "of this run"
oauth = OAuth(app)
oauth.register("zone", **settings())
browser = app.test_client()
SITE = f"https://{HOST}"
told: dict = {}


@app.get("/login")
def login():
    return oauth.zone.authorize_redirect(f"{SITE}/callback")


@app.get("/callback")
def callback():
    token = oauth.zone.authorize_access_token()
    told.update(email=token["userinfo"]["email"], access_token=token["access_token"])
    return "signed in"


def finish(address: str) -> dict:
    answer = browser.get(f"/callback?{urlsplit(address).query}", base_url=SITE)
    assert answer.status_code == 200, answer.text
    return told


converse(lambda: browser.get("/login", base_url=SITE).location, finish)
