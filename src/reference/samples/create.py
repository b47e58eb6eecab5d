import http.client, json, os, random, time, urllib.error, urllib.request

token = os.environ.get("ACCESS_TOKEN")
if not token:
    raise SystemExit("ACCESS_TOKEN is not set")

request = urllib.request.Request(
    "http://127.0.0.1:8000/plants",
    data=json.dumps({"id": 1, "name": "Monstera", "tag": "climber"}).encode(),
    headers={
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
    },
)

def create():
    try:
        try:
            reply = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as refusal:
            reply = refusal
        after = reply.headers.get("Retry-After", "")
        return reply.status, after, reply.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, "", str(error)  # no reply

for tries in range(5):
    status, after, text = create()
    if status == 200:
        print(text)
        break
    if status not in (0, 408, 429, 500, 502, 503, 504):
        raise SystemExit(f"fix the request: {status} {text}")
    if tries == 4:
        raise SystemExit(f"keep the create, send it later: {status} {text}")
    # A date counts as none.
    pause = max(int(after) if after.isdecimal() else 0, 2**tries)
    time.sleep(pause * (1 + random.random()))
