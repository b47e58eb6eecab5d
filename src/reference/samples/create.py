import http.client, json, os, random, time, urllib.error, urllib.request

request = urllib.request.Request(
    "PLANTS_URL",
    data=json.dumps(NEW_PLANT).encode(),
    headers={
        "Authorization": f"Bearer {os.environ['ACCESS_TOKEN']}",
        "Content-Type": "application/json",
    },
)

def create():
    try:
        try:
            reply = urllib.request.urlopen(request, timeout=REPLY_S_MAX)
        except urllib.error.HTTPError as refusal:
            reply = refusal
        return reply.status, reply.headers["Retry-After"], reply.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, None, str(error)  # no reply

for tries in range(RETRIES + 1):
    status, after, text = create()
    if status == 200:
        print(text)
        break
    if status not in (0, 408, 500, 503):
        raise SystemExit(f"fix the request: {text}")
    if tries == RETRIES:
        raise SystemExit(f"keep the create, send it later: {text}")
    pause = max(float(after or 0), 2**tries)
    time.sleep(pause * (1 + random.random()))
