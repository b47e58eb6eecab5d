-- Creates plants, each under an id of its own, and repeats some of them:
--
--   wrk -t1 -c256 -d2s -s load.lua URL -- TOKEN IDS REPEATS BODIES
--
-- IDS: rising or random. REPEATS: percentage of creates that repeat a recent one.
-- BODIES: whole, or broken, which are not JSON: they have no end.

-- The last creates may still be running: older ones are repeated.
local RUNNING = 1000
local RECENT = 4000

function init(args)
  token, ids, repeats = args[1], args[2], tonumber(args[3])
  last = args[4] == "broken" and "" or "}"
  -- Above every id of an earlier run: none creates a million plants a second.
  from = os.time() * 1e6
  count = from
  math.randomseed(from)
  head = "POST /plants HTTP/1.1\r\n" ..
    "Host: " .. wrk.host .. ":" .. wrk.port .. "\r\n" ..
    "Authorization: Bearer " .. token .. "\r\n" ..
    "Content-Type: application/json\r\n" ..
    "Content-Length: "
end

local function next_id()
  if ids == "random" then return (math.random() - 0.5) * 2 ^ 64 end
  if count - from > RUNNING + RECENT and math.random() * 100 < repeats then
    return count - RUNNING - math.random(0, RECENT - 1)
  end
  count = count + 1
  return count
end

function request()
  local body = string.format(
    '{"id":%.0f,"name":"Monstera deliciosa","tag":"climber"', next_id()) .. last
  return head .. #body .. "\r\n\r\n" .. body
end

-- A response() function would slow wrk down until wrk is what is measured.
function done(summary, latency)
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"requests":%d,"seconds":%f,"p99Ms":%f,"refused":%d,"broken":%d}',
    summary.requests,
    summary.duration / 1e6,
    latency:percentile(99) / 1e3,
    errors.status,
    errors.connect + errors.read + errors.write
  ))
end
