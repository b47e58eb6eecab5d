-- The load of the bench: creates plants, each under an id of its own.
--
--   wrk -t1 -c64 -d5s -s load.lua http://127.0.0.1:8000 -- rising 1 TOKEN
--
-- Arguments: rising or random ids, the number to count from, the token. Runs
-- that count from numbers far enough apart never send the same id.

local ffi = require("ffi")

-- No thread sends that many in one run, so the threads' ranges stay apart.
local IDS_PER_THREAD = 1e9

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  local order, start, token = args[1], tonumber(args[2]), args[3]
  assert(order == "rising" or order == "random", "rising or random?")
  next_id = order == "rising" and rising or random
  count = start + number * IDS_PER_THREAD
  head = "POST /plants HTTP/1.1\r\n" ..
    "Host: " .. wrk.host .. ":" .. wrk.port .. "\r\n" ..
    "Authorization: Bearer " .. token .. "\r\n" ..
    "Content-Type: application/json\r\n" ..
    "Content-Length: "
end

function rising()
  return string.format("%.0f", count)
end

-- The finalizer of SplitMix64. It is a bijection, so no id comes twice, and it
-- spreads a counter over the whole of int64.
function random()
  local z = ffi.cast("uint64_t", count) * 0x9e3779b97f4a7c15ULL
  z = bit.bxor(z, bit.rshift(z, 30)) * 0xbf58476d1ce4e5b9ULL
  z = bit.bxor(z, bit.rshift(z, 27)) * 0x94d049bb133111ebULL
  z = bit.bxor(z, bit.rshift(z, 31))
  -- LuaJIT writes an int64 as 123LL.
  return tostring(ffi.cast("int64_t", z)):sub(1, -3)
end

function request()
  count = count + 1
  local body = '{"id":' .. next_id() ..
    ',"name":"Monstera deliciosa","tag":"climber"}'
  return head .. #body .. "\r\n\r\n" .. body
end

-- wrk counts replies of status 400 and above itself. A response() function
-- would see every status but slows wrk down to where wrk is what is measured.
function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    "result rate=%.1f p50=%d p99=%d refused=%d broken=%d\n",
    summary.requests / summary.duration * 1e6,
    latency:percentile(50),
    latency:percentile(99),
    errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
