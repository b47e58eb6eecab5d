import http.client, json, os, random, re, time, urllib.error, urllib.request

token = os.environ.get("ACCESS_TOKEN", "")
if not re.fullmatch("[!-~]+", token):
    raise SystemExit("ACCESS_TOKEN is not a token")

request = urllib.request.Request(
    "http://127.0.0.1:8000/plants",
    data=json.dumps({"id": 1, "name": "Monstera", "tag": "climber"}).encode(),
    headers={
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
    },
)

class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # it leads to a page, not to the service

opener = urllib.request.build_opener(NoRedirect)

def create():
    try:
        try:
            reply = opener.open(request, timeout=20)
        except urllib.error.HTTPError as refusal:
            reply = refusal
        kind = reply.headers.get_content_type()
        after = reply.headers.get("Retry-After", "")
        return reply.status, kind, after, reply.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, "", "", str(error)  # no reply

for tries in range(5):
    status, kind, after, text = create()
    if status == 200 and kind == "application/json":
        print(text)
        break
    if status not in (0, 408, 429, 500, 502, 503, 504):
        raise SystemExit(f"fix the request or the address: {status} {text}")
    if tries == 4:
        raise SystemExit(f"keep the create, send it later: {status} {text}")
    # A date counts as none, and more than an hour as an hour.
    asked = min(int(after[:9]), 3600) if after.isdecimal() else 0
    pause = max(asked, 2**tries)
    time.sleep(pause * (1 + random.random()))
